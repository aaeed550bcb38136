#include "device/cuda/waits.hpp"

#include <chrono>

#include "device/cuda/error.hpp"
#include "device/cuda/handles.hpp"

namespace millrace::cuda {
namespace {

// About the time of an interrupt and of waking a thread.
constexpr auto kSpin = std::chrono::microseconds{50};

/** @brief Queries until the work has ended, for at most kSpin. @return whether it has ended */
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
  // Every blocking stream would wait for an event recorded on the legacy stream.
  if (stream == cudaStreamLegacy ||
      ends_soon([&] { return ready(cudaStreamQuery(stream), "cudaStreamQuery", stream); })) {
    return check(cudaStreamSynchronize(stream), "cudaStreamSynchronize", stream);
  }
  const UniqueEvent end = make_event(cudaEventDisableTiming | cudaEventBlockingSync);
  check(cudaEventRecord(end.get(), stream), "cudaEventRecord", end.get(), stream);
  check(cudaEventSynchronize(end.get()), "cudaEventSynchronize", end.get());
}

}  // namespace millrace::cuda
