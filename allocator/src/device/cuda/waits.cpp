#include "device/cuda/waits.hpp"

#include <chrono>

#include "device/cuda/error.hpp"
#include "device/cuda/handles.hpp"

namespace millrace::cuda {
namespace {

// About what an interrupt and waking a thread take.
constexpr auto kSpin = std::chrono::microseconds{50};

/** @brief Asks until it has ended, for that time at most. @return whether it has */
template <typename Query>
bool ends_soon(Query query) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + kSpin;
  do {
    if (query()) return true;
  } while (Clock::now() < end);
  return false;
}

}  // namespace

void wait_for(cudaEvent_t event) {
  ends_soon([&] { return ready(cudaEventQuery(event), "cudaEventQuery", event); });
  check(cudaEventSynchronize(event), "cudaEventSynchronize", event);
}

void wait_for(cudaStream_t stream) {
  // An event on the legacy stream would be waited for by every blocking stream from then on.
  if (stream == cudaStreamLegacy ||
      ends_soon([&] { return ready(cudaStreamQuery(stream), "cudaStreamQuery", stream); })) {
    return check(cudaStreamSynchronize(stream), "cudaStreamSynchronize", stream);
  }
  const UniqueEvent end = make_event(cudaEventDisableTiming | cudaEventBlockingSync);
  check(cudaEventRecord(end.get(), stream), "cudaEventRecord", end.get(), stream);
  check(cudaEventSynchronize(end.get()), "cudaEventSynchronize", end.get());
}

}  // namespace millrace::cuda
