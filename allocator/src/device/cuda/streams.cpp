#include "device/cuda/error.hpp"
#include "device/cuda/runtime.hpp"
#include "device/cuda/waits.hpp"

namespace millrace::cuda {

namespace {

bool capturing_native(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  const cudaError_t result = cudaStreamIsCapturing(stream, &status);
  if (result == cudaErrorStreamCaptureImplicit) {  // legacy, would wait for a captured stream
    quietly(result);
    return true;
  }
  check_released(result, "cudaStreamIsCapturing", stream);
  return status != cudaStreamCaptureStatusNone;
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
  if (!capturing_native(native(stream))) [[likely]]
    return;
  throw DeviceError{ErrorCode::capture, written(call, stream.value),
                    "nothing of this stream runs before its graph is launched"};
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

bool Runtime::do_capturing(StreamHandle stream) {
  const CurrentContext current = enter();
  return capturing_native(native(stream));
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
