#include "device/cuda/error.hpp"
#include "device/cuda/runtime.hpp"
#include "device/cuda/waits.hpp"

namespace millrace::cuda {

EventHandle Runtime::do_create_event(bool timed) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  const unsigned flags = cudaEventBlockingSync | (timed ? 0U : cudaEventDisableTiming);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags", flags);
  if (timed) timing_.store(true, std::memory_order_relaxed);
  return {event};
}

void Runtime::do_destroy_event(EventHandle event) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  check_released(cudaEventDestroy(native(event)), "cudaEventDestroy", event.value);
}

void Runtime::do_record(EventHandle event, StreamHandle stream) {
  const CurrentContext current = enter();
  refuse_captured(stream, "cudaEventRecord");
  if (timing_.load(std::memory_order_relaxed)) clock_->tick();
  check(cudaEventRecord(native(event), native(stream)), "cudaEventRecord", event.value,
        stream.value);
}

void Runtime::do_wait(StreamHandle stream, EventHandle event) {
  const CurrentContext current = enter();
  refuse_captured(stream, "cudaStreamWaitEvent");
  check(cudaStreamWaitEvent(native(stream), native(event), cudaEventWaitDefault),
        "cudaStreamWaitEvent", stream.value, event.value);
}

bool Runtime::do_query(EventHandle event) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  return ready(cudaEventQuery(native(event)), "cudaEventQuery", event.value);
}

void Runtime::do_synchronize(EventHandle event) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  wait_for(native(event));
}

Nanoseconds Runtime::do_event_time(EventHandle event) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  return clock_->time_of(native(event));
}

}  // namespace millrace::cuda
