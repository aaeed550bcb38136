#include "millrace/device/cuda_device.hpp"

#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include "device/cuda/context.hpp"
#include "device/cuda/error.hpp"
#include "device/cuda/event_clock.hpp"
#include "device/cuda/handles.hpp"
#include "device/cuda/occupy.hpp"
#include "device/cuda/vmm.hpp"
#include "device/cuda/waits.hpp"
#include "device/range_page.hpp"
#include "millrace/device/cuda_calls.hpp"
#include "millrace/device/ordered_device.hpp"

namespace millrace {
namespace {

using cuda::check;
using cuda::check_released;
using cuda::CurrentContext;
using cuda::OutsideCapture;
using cuda::quietly;
using cuda::ready;

// Null means the legacy stream here, however the runtime was compiled.
cudaStream_t native(StreamHandle stream) {
  return stream.value == nullptr ? cudaStreamLegacy : static_cast<cudaStream_t>(stream.value);
}

cudaEvent_t native(EventHandle event) { return static_cast<cudaEvent_t>(event.value); }

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

bool capturing_native(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  const cudaError_t result = cudaStreamIsCapturing(stream, &status);
  if (result == cudaErrorStreamCaptureImplicit) {  // legacy, and a stream it waits for is captured
    quietly(result);
    return true;
  }
  check_released(result, "cudaStreamIsCapturing", stream);
  return status != cudaStreamCaptureStatusNone;
}

/** A host function has thrown, so later work on its stream depends on something that did not
 * happen. */
class Failure {
 public:
  void set(const char* what) {
    const std::lock_guard lock{mutex_};
    if (!happened_.load(std::memory_order_relaxed)) what_ = what;
    happened_.store(true, std::memory_order_release);
  }
  void rethrow_if_any() const {
    if (!happened_.load(std::memory_order_acquire)) [[likely]]
      return;
    throw DeviceError{ErrorCode::device_lost, "a host callback threw an exception", what_};
  }

 private:
  std::mutex mutex_;
  std::string what_;  // constant once happened_ is set
  std::atomic<bool> happened_{false};
};

cuda::UniquePool make_pool(int ordinal, const DriverPoolPolicy& policy) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypeNone;
  properties.location = {};
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = ordinal;
  cudaMemPool_t created = nullptr;
  check(cudaMemPoolCreate(&created, &properties), "cudaMemPoolCreate", ordinal);
  cuda::UniquePool pool{created};
  const auto set = [&](cudaMemPoolAttr what, auto value) {
    check(cudaMemPoolSetAttribute(pool.get(), what, &value), "cudaMemPoolSetAttribute", what,
          value);
  };
  set(cudaMemPoolReuseFollowEventDependencies, int{policy.follow_event_dependencies});
  set(cudaMemPoolReuseAllowOpportunistic, int{policy.allow_opportunistic});
  set(cudaMemPoolReuseAllowInternalDependencies, int{policy.allow_internal_dependencies});
  set(cudaMemPoolAttrReleaseThreshold, cuuint64_t{policy.release_threshold});
  return pool;
}

void allow_pool_to(cudaMemPool_t pool, int ordinal) {
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = ordinal;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  check(cudaMemPoolSetAccess(pool, &access, 1), "cudaMemPoolSetAccess", ordinal);
}

class Runtime final : public CudaDevice {
 public:
  Runtime(int ordinal, const Options& options)
      : ordinal_(ordinal), info_(cuda_device_info(ordinal)) {
    context_ = cuda::primary_context(ordinal);
    const CurrentContext current{context_};
    const OutsideCapture outside;
    try {
      machine();
    } catch (const DeviceError&) {  // before main, CUDA does not know this program's kernels yet
    }
    clock_ = std::make_unique<cuda::EventClock>();
    if (info_.virtual_memory) {
      virtual_memory_.emplace(ordinal, range_page(info_.page_bytes, info_.memory_bytes));
    }
    if (info_.memory_pools) pool_ = make_pool(ordinal, options.pool);
  }

  ~Runtime() override {
    try {
      const CurrentContext current{context_};
      const OutsideCapture outside;
      if (callbacks_pending_ > 0) quietly(cudaDeviceSynchronize());
      pool_.reset();
      clock_.reset();
    } catch (const DeviceError&) {  // lost, or the process is ending: nothing is left to release
    }
  }

  std::string name() const override { return "cuda:" + std::to_string(ordinal_); }
  bool has_driver_pool() const override { return pool_ != nullptr; }
  int ordinal() const noexcept override { return ordinal_; }
  const CudaDeviceInfo& info() const noexcept override { return info_; }
  void allow_peer(int ordinal) override;
  StreamHandle per_thread_stream() override { return {cudaStreamPerThread}; }
  DriverPoolInfo pool_info() override;
  std::size_t page_bytes() const override {
    return virtual_memory_ ? virtual_memory_->page_bytes() : 0;
  }

 private:
  struct HostCall {
    Runtime& device;
    std::function<void()> function;
  };

  /** What every call begins with. CUDA may or may not notice that it is called in a callback. */
  CurrentContext enter() const {
    failure_.rethrow_if_any();
    if (in_host_callback()) [[unlikely]] {
      throw DeviceError{ErrorCode::not_supported, name(), "a host callback must not call a device"};
    }
    return CurrentContext{context_};
  }
  cudaMemPool_t pool() const;
  cuda::VirtualMemory& virtual_memory();
  const cuda::Machine& machine();
  /**
   * Asking a stream that is being captured anything else would fail, and break the capture for
   * the program that began it. Work enqueued there would run at each replay, and not now.
   */
  void refuse_captured(StreamHandle stream, const char* call);
  static void CUDART_CB run(void* host_call) noexcept;

  void* do_allocate(std::size_t bytes) override;
  void do_free(void* address) override;
  void* do_allocate_host(std::size_t bytes) override;
  void do_free_host(void* address) override;
  MemoryInfo do_memory_info() override;
  void* do_reserve_range(std::size_t bytes) override;
  void do_release_range(void* base, std::size_t bytes) override;
  void do_map(void* address, std::size_t bytes) override;
  void do_unmap(void* address, std::size_t bytes) override;
  void* do_allocate_async(std::size_t bytes, StreamHandle stream) override;
  void do_free_async(void* address, StreamHandle stream) override;
  void do_trim_pool(std::size_t keep_bytes) override;
  StreamHandle do_create_stream(const StreamOptions& options) override;
  void do_destroy_stream(StreamHandle stream) override;
  std::uint64_t do_stream_id(StreamHandle stream) override;
  bool do_blocking(StreamHandle stream) override;
  bool do_capturing(StreamHandle stream) override;
  bool do_query(StreamHandle stream) override;
  void do_synchronize(StreamHandle stream) override;
  void do_synchronize() override;
  EventHandle do_create_event(bool timed) override;
  void do_destroy_event(EventHandle event) override;
  void do_record(EventHandle event, StreamHandle stream) override;
  void do_wait(StreamHandle stream, EventHandle event) override;
  bool do_query(EventHandle event) override;
  void do_synchronize(EventHandle event) override;
  Nanoseconds do_event_time(EventHandle event) override;
  void do_copy(void* to, const void* from, std::size_t bytes, CopyKind kind,
               StreamHandle stream) override;
  void do_fill(void* address, unsigned char value, std::size_t bytes, StreamHandle stream) override;
  void do_launch(Operation operation, StreamHandle stream) override;
  void do_callback(StreamHandle stream, std::function<void()> function,
                   std::uint64_t serial) override;

  int ordinal_;
  CudaDeviceInfo info_;
  CUcontext context_ = nullptr;
  std::once_flag prepared_;
  cuda::Machine machine_;  // once prepared_
  std::unique_ptr<cuda::EventClock> clock_;
  cuda::UniquePool pool_;
  std::optional<cuda::VirtualMemory> virtual_memory_;
  Failure failure_;
  std::atomic<bool> timing_{false};
  std::atomic<int> callbacks_pending_{0};
};

// Memory

void* Runtime::do_allocate(std::size_t bytes) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  void* address = nullptr;
  check(cudaMalloc(&address, bytes), "cudaMalloc", bytes);
  return address;
}

void Runtime::do_free(void* address) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  check_released(cudaFree(address), "cudaFree", address);
}

void* Runtime::do_allocate_host(std::size_t bytes) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  void* address = nullptr;
  check(cudaHostAlloc(&address, bytes, cudaHostAllocDefault), "cudaHostAlloc", bytes);
  return address;
}

void Runtime::do_free_host(void* address) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  check_released(cudaFreeHost(address), "cudaFreeHost", address);
}

MemoryInfo Runtime::do_memory_info() {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  MemoryInfo info;
  check(cudaMemGetInfo(&info.free, &info.total), "cudaMemGetInfo");
  return info;
}

cuda::VirtualMemory& Runtime::virtual_memory() {
  if (virtual_memory_) return *virtual_memory_;
  throw DeviceError{ErrorCode::not_supported, name(),
                    "this GPU or its driver cannot map memory (cuMemMap)"};
}

void* Runtime::do_reserve_range(std::size_t bytes) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  return virtual_memory().reserve(bytes);
}

void Runtime::do_release_range(void* base, std::size_t bytes) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  virtual_memory().free(static_cast<std::byte*>(base), bytes);
}

void Runtime::do_map(void* address, std::size_t bytes) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  virtual_memory().fill(static_cast<std::byte*>(address), bytes);
}

void Runtime::do_unmap(void* address, std::size_t bytes) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  virtual_memory().unmap(static_cast<std::byte*>(address), bytes);
}

void Runtime::allow_peer(int ordinal) {
  if (ordinal == ordinal_) return;
  if (!cuda_peer_access(ordinal, ordinal_)) {
    throw DeviceError{ErrorCode::not_supported, name(),
                      "cuda:" + std::to_string(ordinal) + " cannot use its memory"};
  }
  {
    const CurrentContext current = enter();
    const OutsideCapture outside;
    if (pool_ != nullptr) allow_pool_to(pool_.get(), ordinal);
    if (virtual_memory_) virtual_memory_->allow_peer(ordinal);
  }
  const CurrentGpu peer{ordinal};  // of whose context it is a property
  const cudaError_t result = cudaDeviceEnablePeerAccess(ordinal_, 0);
  if (result == cudaErrorPeerAccessAlreadyEnabled) return quietly(result);
  check(result, "cudaDeviceEnablePeerAccess", ordinal_, 0);
}

cudaMemPool_t Runtime::pool() const {
  if (pool_ != nullptr) return pool_.get();
  throw DeviceError{ErrorCode::not_supported, name(),
                    "this GPU or its driver has no stream-ordered pools (cudaMallocAsync)"};
}

void* Runtime::do_allocate_async(std::size_t bytes, StreamHandle stream) {
  const CurrentContext current = enter();
  refuse_captured(stream, "cudaMallocFromPoolAsync");
  void* address = nullptr;
  check(cudaMallocFromPoolAsync(&address, bytes, pool(), native(stream)), "cudaMallocFromPoolAsync",
        bytes, stream.value);
  return address;
}

void Runtime::do_free_async(void* address, StreamHandle stream) {
  const CurrentContext current = enter();
  refuse_captured(stream, "cudaFreeAsync");
  check_released(cudaFreeAsync(address, native(stream)), "cudaFreeAsync", address, stream.value);
}

void Runtime::do_trim_pool(std::size_t keep_bytes) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  check(cudaMemPoolTrimTo(pool(), keep_bytes), "cudaMemPoolTrimTo", keep_bytes);
}

DriverPoolInfo Runtime::pool_info() {
  const CurrentContext current = enter();
  const auto get = [this](cudaMemPoolAttr what) {
    cuuint64_t value = 0;
    check(cudaMemPoolGetAttribute(pool(), what, &value), "cudaMemPoolGetAttribute", what);
    return static_cast<std::size_t>(value);
  };
  return {get(cudaMemPoolAttrReservedMemCurrent), get(cudaMemPoolAttrReservedMemHigh),
          get(cudaMemPoolAttrUsedMemCurrent), get(cudaMemPoolAttrUsedMemHigh)};
}

// Streams

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
  throw DeviceError{ErrorCode::capture, cuda::written(call, stream.value),
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
  // Documented of the default streams; what cudaStreamGetFlags says of them is not.
  if (native(stream) == cudaStreamLegacy || native(stream) == cudaStreamPerThread) return true;
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
  cuda::wait_for(native(stream));
}

void Runtime::do_synchronize() {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

// Events

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
  cuda::wait_for(native(event));
}

Nanoseconds Runtime::do_event_time(EventHandle event) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  return clock_->time_of(native(event));
}

// Work

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

const cuda::Machine& Runtime::machine() {
  std::call_once(prepared_, [this] {
    const OutsideCapture outside;
    machine_ = cuda::prepare_occupation(ordinal_, info_.flops, info_.memory_bandwidth);
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
  if (!operation.cuda) return cuda::occupy(operation, machine(), native(stream));
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
    static_cast<void>(call.release());  // `run` has it now
  } else {
    callbacks_pending_.fetch_sub(1);
  }
  check(result, "cudaLaunchHostFunc", stream.value);
}

}  // namespace

std::unique_ptr<CudaDevice> CudaDevice::create(int ordinal) { return create(ordinal, {}); }

std::unique_ptr<CudaDevice> CudaDevice::create(int ordinal, const Options& options) {
  return std::make_unique<Runtime>(ordinal, options);
}

}  // namespace millrace
