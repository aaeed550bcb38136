#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/operation.hpp"

namespace millrace::virtual_cuda {
struct Capture;
}  // namespace millrace::virtual_cuda

/** The object that a cudaEvent_t points to. It is never freed. A later event reuses it. */
struct CUevent_st {
  static constexpr std::uint32_t kMagic = 0x45564e54;

  std::uint32_t magic = 0;
  unsigned flags = 0;
  unsigned device = 0;
  bool recorded = false;
  std::uint64_t generation = 0;
  millrace::Nanoseconds time{0};              ///< time of the last record, when it is done
  millrace::virtual_cuda::OperationRef last;  ///< the last record; null if it was done at the call
  std::shared_ptr<millrace::virtual_cuda::Capture> capture;  ///< the last record's capture, or null
  std::vector<cudaGraphNode_t> captured_nodes;
};

namespace millrace::virtual_cuda {

[[nodiscard]] inline bool valid(cudaEvent_t event) noexcept {
  return event != nullptr && event->magic == CUevent_st::kMagic;
}

/** @brief The last record of the event; null if the event was destroyed. */
[[nodiscard]] inline OperationRef* last_record(const EventRef& ref) noexcept {
  return ref.event->generation == ref.generation ? &ref.event->last : nullptr;
}

/** @brief Sets the event's time after a record ran, unless the event was recorded again. */
inline void note_recorded(const EventRef& ref, const Operation& operation) noexcept {
  if (ref.event->generation == ref.generation && ref.event->last.get() == &operation)
    ref.event->time = operation.end;
}

}  // namespace millrace::virtual_cuda
