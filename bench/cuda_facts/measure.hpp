#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "device/cuda/error.hpp"
#include "device/cuda/handles.hpp"

namespace millrace::facts {

using cuda::check;
using cuda::make_event;
using cuda::make_stream;
using cuda::quietly;

inline void settle() { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

/// Host time of one call, in microseconds.
template <typename Call>
[[nodiscard]] double microseconds_of(Call&& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
  return taken.count();
}

[[nodiscard]] inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Median time of `count` runs of `call` in microseconds. `before` runs before each call,
/// unmeasured.
template <typename Before, typename Call>
[[nodiscard]] double median_microseconds(int count, Before&& before, Call&& call) {
  std::vector<double> taken;
  for (int i = 0; i < count; ++i) {
    before();
    taken.push_back(microseconds_of(call));
  }
  return median(std::move(taken));
}

/// Device time of `work` on a stream, in microseconds.
template <typename Work>
[[nodiscard]] double device_microseconds(cudaStream_t stream, Work&& work) {
  const auto begin = make_event(cudaEventDefault), end = make_event(cudaEventDefault);
  check(cudaEventRecord(begin.get(), stream), "cudaEventRecord");
  work();
  check(cudaEventRecord(end.get(), stream), "cudaEventRecord");
  check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
  return 1e3 * milliseconds;
}

/// "cudaSuccess" or another name. Clears the thread's last error.
[[nodiscard]] inline std::string name_of(cudaError_t result) {
  quietly(result);
  return cudaGetErrorName(result);
}

}  // namespace millrace::facts
