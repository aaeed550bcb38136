#include "millrace/pipeline/schedule/memory_recording.hpp"

#include <optional>

#include "millrace/memory/driver_allocator.hpp"

namespace millrace {
namespace {

void watch(Timeline& timeline, Allocator& allocator, const char* name, StreamRef main) {
  // The driver's pool does not report which of its bytes a stream could use.
  const bool says = dynamic_cast<const DriverAllocator*>(&allocator) == nullptr;
  timeline.watch(allocator, name, says ? std::optional{main} : std::nullopt);
}

}  // namespace

MemoryRecording::MemoryRecording(Timeline* timeline, Allocator& memory, Allocator& batches,
                                 StreamRef main)
    : timeline_(timeline) {
  if (timeline_ == nullptr) return;
  watch(*timeline_, memory, "device memory", main);
  if (&batches != &memory) watch(*timeline_, batches, "batches", main);
}

MemoryRecording::~MemoryRecording() {
  if (timeline_ != nullptr) timeline_->stop();
}

}  // namespace millrace
