#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/operation.hpp"

namespace millrace::virtual_cuda {
struct Capture;
}  // namespace millrace::virtual_cuda

/** What a cudaEvent_t points to. Never freed: a destroyed event's memory serves a later one. */
struct CUevent_st {
  static constexpr std::uint32_t kMagic = 0x45564e54;

  std::uint32_t magic = 0;
  unsigned flags = 0;
  unsigned device = 0;
  bool recorded = false;
  std::uint64_t generation = 0;
  millrace::Nanoseconds time{0};              ///< of the last record, once it is done
  millrace::virtual_cuda::OperationRef last;  ///< the last record; null if it was done at the call
  std::shared_ptr<millrace::virtual_cuda::Capture> capture;  ///< the last record was captured
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

/** @brief A record was carried out. Of an event that was recorded again since, nothing changes. */
inline void note_recorded(const EventRef& ref, const Operation& operation) noexcept {
  if (ref.event->generation == ref.generation && ref.event->last.get() == &operation)
    ref.event->time = operation.end;
}

}  // namespace millrace::virtual_cuda
