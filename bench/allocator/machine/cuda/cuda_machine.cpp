#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "allocator/machine/machine.hpp"
#include "device/cuda/handles.hpp"
#include "millrace/device/cuda_calls.hpp"
#include "millrace/device/cuda_device.hpp"

namespace millrace::bench {
namespace {

using cuda::check;

cudaStream_t raw(StreamHandle stream) { return static_cast<cudaStream_t>(stream.value); }
cudaEvent_t raw(EventHandle event) { return static_cast<cudaEvent_t>(event.value); }

class CudaDriver final : public Driver {
 public:
  /// Frees the memory that a subject left.
  ~CudaDriver() override {
    for (const auto& [address, bytes] : sizes_) cuda::quietly(cudaFree(address));
  }

  [[nodiscard]] std::size_t peak() const {
    const std::lock_guard lock{mutex_};
    return peak_;
  }

 private:
  void* do_allocate(std::size_t bytes) override {
    void* address = nullptr;
    if (const cudaError_t error = cudaMalloc(&address, bytes); error != cudaSuccess) {
      (void)cudaGetLastError();
      if (error == cudaErrorMemoryAllocation) return nullptr;
      check(error, "cudaMalloc", bytes);
    }
    const std::lock_guard lock{mutex_};
    sizes_[address] = bytes;
    held_ += bytes;
    peak_ = std::max(peak_, held_);
    return address;
  }
  void do_free(void* address) override {
    {
      const std::lock_guard lock{mutex_};
      held_ -= sizes_[address];
      sizes_.erase(address);
    }
    check(cudaFree(address), "cudaFree", address);
  }
  EventHandle do_create_event() override { return {cuda::make_event().release()}; }
  void do_destroy_event(EventHandle event) override { cuda::quietly(cudaEventDestroy(raw(event))); }
  void do_record(EventHandle event, StreamHandle stream) override {
    check(cudaEventRecord(raw(event), raw(stream)), "cudaEventRecord");
  }
  void do_wait(StreamHandle stream, EventHandle event) override {
    check(cudaStreamWaitEvent(raw(stream), raw(event), cudaEventWaitDefault),
          "cudaStreamWaitEvent");
  }
  bool do_query(EventHandle event) override {
    const cudaError_t error = cudaEventQuery(raw(event));
    if (error == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return false;
    }
    check(error, "cudaEventQuery");
    return true;
  }
  void do_synchronize(StreamHandle stream) override {
    check(cudaStreamSynchronize(raw(stream)), "cudaStreamSynchronize");
  }

  mutable std::mutex mutex_;
  std::unordered_map<void*, std::size_t> sizes_;
  std::size_t held_ = 0, peak_ = 0;
};

class CudaMachine final : public Machine {
 public:
  explicit CudaMachine(int ordinal)
      : ordinal_(ordinal), device_(CudaDevice::create(ordinal)), current_(ordinal) {}

  Device& device() override { return *device_; }
  Driver& driver() override { return driver_; }
  bool is_gpu() const override { return true; }
  StreamHandle create_stream(bool blocking) override {
    const unsigned flags = blocking ? cudaStreamDefault : cudaStreamNonBlocking;
    return {streams_.emplace_back(cuda::make_stream(flags)).get()};
  }
  std::shared_ptr<void> enter_thread() override { return std::make_shared<CurrentGpu>(ordinal_); }
  std::size_t peak_reserved() const override { return driver_.peak(); }
  std::uint64_t mapped_pages() const override { return 0; }
  void set_busy(bool) override { refuse(); }
  void run_behind(std::uint64_t) override { refuse(); }
  void end_step() override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    throw std::logic_error{"a GPU decides itself when its work is done"};
  }

  int ordinal_;
  std::unique_ptr<CudaDevice> device_;
  CurrentGpu current_;
  CudaDriver driver_;
  std::vector<cuda::UniqueStream> streams_;
};

}  // namespace

std::unique_ptr<Machine> make_cuda_machine(int ordinal) {
  return std::make_unique<CudaMachine>(ordinal);
}

std::string cuda_machine_title(int ordinal) { return cuda_device_info(ordinal).title; }

}  // namespace millrace::bench
