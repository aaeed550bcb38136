#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "device/cuda/context.hpp"
#include "device/cuda/event_clock.hpp"
#include "device/cuda/handles.hpp"
#include "device/cuda/vmm.hpp"
#include "millrace/device/cuda_device.hpp"
#include "millrace/device/occupy.hpp"

/// @file
/// The device of the CUDA runtime. Its functions are in cuda_device.cpp, memory.cpp,
/// driver_pool.cpp, streams.cpp, events.cpp and work.cpp.

namespace millrace::cuda {

// The null handle means the legacy stream here, for each way to compile the runtime's default
// stream.
inline cudaStream_t native(StreamHandle stream) {
  return stream.value == nullptr ? cudaStreamLegacy : static_cast<cudaStream_t>(stream.value);
}

inline cudaEvent_t native(EventHandle event) { return static_cast<cudaEvent_t>(event.value); }

/** @brief Makes a pool of this GPU with these rules of reuse. */
UniquePool make_pool(int ordinal, const DriverPoolPolicy& policy);
/** @brief Lets GPU `ordinal` use the memory of `pool`. */
void allow_pool_to(cudaMemPool_t pool, int ordinal);

/** Remembers that a host function has thrown: later work on its stream may depend on its result. */
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
  std::string what_;  // does not change after `happened_` is set
  std::atomic<bool> happened_{false};
};

class Runtime final : public CudaDevice {
 public:
  Runtime(int ordinal, const Options& options);
  ~Runtime() override;

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
  bool can_alias() const override { return virtual_memory_.has_value(); }

 private:
  struct HostCall {
    Runtime& device;
    std::function<void()> function;
  };

  /**
   * Begins every call. Throws after a host function has thrown, and inside a host callback: CUDA
   * may not notice that it is called there.
   */
  CurrentContext enter() const;
  cudaMemPool_t pool() const;
  VirtualMemory& virtual_memory();
  const Machine& machine();
  /**
   * Refuses a call on a captured stream. Any call but the query of its capture would fail and
   * invalidate the capture of the program that began it. Work enqueued there would run at each
   * replay, and not now.
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
  void do_alias(void* to, void* from, std::size_t bytes) override;
  void* do_allocate_async(std::size_t bytes, StreamHandle stream) override;
  void do_free_async(void* address, StreamHandle stream) override;
  void do_trim_pool(std::size_t keep_bytes) override;
  StreamHandle do_create_stream(const StreamOptions& options) override;
  void do_destroy_stream(StreamHandle stream) override;
  std::uint64_t do_stream_id(StreamHandle stream) override;
  bool do_blocking(StreamHandle stream) override;
  CaptureStatus do_capture_status(StreamHandle stream) override;
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
  Machine machine_;  // valid after `prepared_`
  std::unique_ptr<EventClock> clock_;
  UniquePool pool_;
  std::optional<VirtualMemory> virtual_memory_;
  Failure failure_;
  std::atomic<bool> timing_{false};
  std::atomic<int> callbacks_pending_{0};
};

}  // namespace millrace::cuda
