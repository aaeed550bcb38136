#include <exception>
#include <utility>

#include "device/cuda/error.hpp"
#include "device/cuda/runtime.hpp"
#include "millrace/device/ordered_device.hpp"

namespace millrace::cuda {

namespace {

cudaMemcpyKind native(CopyKind kind) {
  switch (kind) {
    case CopyKind::host_to_device:
      return cudaMemcpyHostToDevice;
    case CopyKind::device_to_host:
      return cudaMemcpyDeviceToHost;
    case CopyKind::device_to_device:
      return cudaMemcpyDeviceToDevice;
    case CopyKind::host_to_host:
      return cudaMemcpyHostToHost;
  }
  return cudaMemcpyDefault;
}

}  // namespace

void Runtime::do_copy(void* to, const void* from, std::size_t bytes, CopyKind kind,
                      StreamHandle stream) {
  const CurrentContext current = enter();
  refuse_captured(stream, "cudaMemcpyAsync");
  check(cudaMemcpyAsync(to, from, bytes, native(kind), native(stream)), "cudaMemcpyAsync", to, from,
        bytes, native(kind), stream.value);
}

void Runtime::do_fill(void* address, unsigned char value, std::size_t bytes, StreamHandle stream) {
  const CurrentContext current = enter();
  refuse_captured(stream, "cudaMemsetAsync");
  check(cudaMemsetAsync(address, value, bytes, native(stream)), "cudaMemsetAsync", address,
        int{value}, bytes, stream.value);
}

const Machine& Runtime::machine() {
  std::call_once(prepared_, [this] {
    const OutsideCapture outside;
    machine_ = prepare_occupation(ordinal_, info_.flops, info_.memory_bandwidth);
  });
  return machine_;
}

void Runtime::do_launch(Operation operation, StreamHandle stream) {
  const CurrentContext current = enter();
  refuse_captured(stream, "launch");
  if (operation.meeting != nullptr) {
    throw DeviceError(ErrorCode::not_supported, to_string(Call::launch),
                      operation.name + ": only virtual devices meet");
  }
  if (!operation.cuda) return occupy(operation, machine(), native(stream));
  const bool blameless = cudaPeekAtLastError() == cudaSuccess;
  operation.cuda(native(stream));
  if (blameless) check(cudaPeekAtLastError(), "launch", operation.name, stream.value);
}

void CUDART_CB Runtime::run(void* host_call) noexcept {
  const std::unique_ptr<HostCall> call{static_cast<HostCall*>(host_call)};
  Runtime& device = call->device;
  try {
    std::exchange(call->function, nullptr)();
  } catch (const std::exception& exception) {
    device.failure_.set(exception.what());
  } catch (...) {
    device.failure_.set("something that is not a std::exception");
  }
  device.callbacks_pending_.fetch_sub(1);
}

void Runtime::do_callback(StreamHandle stream, std::function<void()> function, std::uint64_t) {
  const CurrentContext current = enter();
  refuse_captured(stream, "cudaLaunchHostFunc");
  auto call = std::make_unique<HostCall>(HostCall{*this, std::move(function)});
  callbacks_pending_.fetch_add(1);
  const cudaError_t result = cudaLaunchHostFunc(native(stream), &Runtime::run, call.get());
  if (result == cudaSuccess) {
    static_cast<void>(call.release());  // `run` owns it now
  } else {
    callbacks_pending_.fetch_sub(1);
  }
  check(result, "cudaLaunchHostFunc", stream.value);
}

}  // namespace millrace::cuda
