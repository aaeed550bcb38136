#pragma once

#include "millrace/device/ordered_device.hpp"

/// @file
/// CUDA's own handles as Millrace's. No CUDA header is needed: `cudaStream_t` and `cudaEvent_t` are
/// pointers to these two types.

struct CUstream_st;
struct CUevent_st;

namespace millrace {

/**
 * @brief A plain `cudaStream_t`.
 *
 * `cudaStreamLegacy` and 0 are the same stream. Code that is compiled with
 * `--default-stream per-thread` (CUDA_API_PER_THREAD_DEFAULT_STREAM) means the calling thread's own
 * stream by 0, and so does this function there; it is therefore always inlined.
 */
[[nodiscard, gnu::always_inline]] inline StreamHandle plain_stream(CUstream_st* stream) noexcept {
  // NOLINTBEGIN(performance-no-int-to-ptr): CUDA's special handles are small numbers
  constexpr std::uintptr_t kLegacy = 1;
  if (reinterpret_cast<std::uintptr_t>(stream) == kLegacy) return {};
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
  constexpr std::uintptr_t kPerThread = 2;
  if (stream == nullptr) return {reinterpret_cast<void*>(kPerThread)};
#endif
  // NOLINTEND(performance-no-int-to-ptr)
  return {stream};
}

/** @brief A plain `cudaEvent_t`. */
[[nodiscard]] inline EventHandle plain_event(CUevent_st* event) noexcept { return {event}; }

}  // namespace millrace
