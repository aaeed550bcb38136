#include "device/cuda/error.hpp"
#include "device/cuda/runtime.hpp"
#include "device/cuda/waits.hpp"

namespace millrace::cuda {

namespace {

CaptureStatus capture_status_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  const cudaError_t result = cudaStreamIsCapturing(stream, &status);
  if (result == cudaErrorStreamCaptureImplicit) {
    quietly(result);
    return CaptureStatus::blocked;
  }
  check_released(result, "cudaStreamIsCapturing", stream);
  switch (status) {
    case cudaStreamCaptureStatusNone:
      return CaptureStatus::none;
    case cudaStreamCaptureStatusActive:
      return CaptureStatus::active;
    case cudaStreamCaptureStatusInvalidated:
      break;
  }
  return CaptureStatus::invalidated;  // also a status of a newer CUDA: nothing may run there
}

}  // namespace

StreamHandle Runtime::do_create_stream(const StreamOptions& options) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  const unsigned flags = options.blocking ? cudaStreamDefault : cudaStreamNonBlocking;
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, flags, options.priority),
        "cudaStreamCreateWithPriority", flags, options.priority);
  return {stream};
}

void Runtime::do_destroy_stream(StreamHandle stream) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  check_released(cudaStreamDestroy(native(stream)), "cudaStreamDestroy", stream.value);
}

void Runtime::refuse_captured(StreamHandle stream, const char* call) {
  const CaptureStatus status = capture_status_of(native(stream));
  if (status == CaptureStatus::none) [[likely]]
    return;
  throw DeviceError{ErrorCode::capture, written(call, stream.value), why_refused(status)};
}

std::uint64_t Runtime::do_stream_id(StreamHandle stream) {
  const CurrentContext current = enter();
  refuse_captured(stream, "cudaStreamGetId");
  unsigned long long id = 0;
  check(cudaStreamGetId(native(stream), &id), "cudaStreamGetId", stream.value);
  return id;
}

bool Runtime::do_blocking(StreamHandle stream) {
  const CurrentContext current = enter();
  // The default streams are documented as blocking; the answer of cudaStreamGetFlags for them is
  // not.
  if (native(stream) == cudaStreamLegacy || native(stream) == cudaStreamPerThread) return true;
  refuse_captured(stream, "cudaStreamGetFlags");
  unsigned flags = 0;
  check(cudaStreamGetFlags(native(stream), &flags), "cudaStreamGetFlags", stream.value);
  return (flags & cudaStreamNonBlocking) == 0;
}

CaptureStatus Runtime::do_capture_status(StreamHandle stream) {
  const CurrentContext current = enter();
  return capture_status_of(native(stream));
}

bool Runtime::do_query(StreamHandle stream) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  refuse_captured(stream, "cudaStreamQuery");
  return ready(cudaStreamQuery(native(stream)), "cudaStreamQuery", stream.value);
}

void Runtime::do_synchronize(StreamHandle stream) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  refuse_captured(stream, "cudaStreamSynchronize");
  wait_for(native(stream));
}

void Runtime::do_synchronize() {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace millrace::cuda
