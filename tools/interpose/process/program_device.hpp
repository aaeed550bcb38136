#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "millrace/device/aliased_pages.hpp"
#include "millrace/device/cuda_device.hpp"

namespace millrace::interpose {

/**
 * @brief A GPU on which the program makes calls itself: what it does is done once, with the
 *        program's own arguments, and the order that follows is still noted.
 *
 * While a ProgramCall lives, a wait or a synchronization that the calling thread makes on this
 * device is the program's call in place of the driver's: OrderedDevice then notes what it proves.
 *
 * With Memory::numbers, the device has the GPU's streams and events, and its memory is numbers: an
 * allocator decides as it would, and reserves nothing.
 */
class ProgramDevice final : public Device {
 public:
  enum class Memory : std::uint8_t { of_gpu, numbers };

  ProgramDevice(std::unique_ptr<CudaDevice> gpu, Memory memory)
      : gpu_(std::move(gpu)),
        has_memory_(memory == Memory::of_gpu),
        total_(gpu_->memory_info().total),
        aliased_(gpu_->page_bytes()) {}

  [[nodiscard]] CudaDevice& gpu() noexcept { return *gpu_; }

  std::string name() const override { return gpu_->name(); }
  bool modelled() const override { return false; }
  bool has_driver_pool() const override { return gpu_->has_driver_pool(); }
  StreamHandle per_thread_stream() override { return gpu_->per_thread_stream(); }
  std::size_t page_bytes() const override { return gpu_->page_bytes(); }
  bool can_alias() const override { return gpu_->can_alias(); }

 private:
  void* do_allocate(std::size_t bytes) override;
  void do_free(void* address) override;
  void* do_allocate_host(std::size_t bytes) override { return gpu_->allocate_host(bytes); }
  void do_free_host(void* address) override { gpu_->free_host(address); }
  MemoryInfo do_memory_info() override;
  void* do_reserve_range(std::size_t bytes) override;
  void do_release_range(void* base, std::size_t bytes) override;
  void do_map(void* address, std::size_t bytes) override;
  void do_unmap(void* address, std::size_t bytes) override;
  void do_alias(void* to, void* from, std::size_t bytes) override;
  StreamHandle do_create_stream(const StreamOptions& options) override {
    return gpu_->create_stream(options);
  }
  void do_destroy_stream(StreamHandle stream) override { gpu_->destroy_stream(stream); }
  std::uint64_t do_stream_id(StreamHandle stream) override { return gpu_->stream_id(stream); }
  bool do_blocking(StreamHandle stream) override { return gpu_->blocking(stream); }
  bool do_capturing(StreamHandle stream) override { return gpu_->capturing(stream); }
  bool do_query(StreamHandle stream) override { return gpu_->query(stream); }
  void do_synchronize(StreamHandle stream) override;
  void do_synchronize() override;
  EventHandle do_create_event(bool timed) override { return gpu_->create_event(timed); }
  void do_destroy_event(EventHandle event) override { gpu_->destroy_event(event); }
  void do_record(EventHandle event, StreamHandle stream) override { gpu_->record(event, stream); }
  void do_wait(StreamHandle stream, EventHandle event) override;
  bool do_query(EventHandle event) override { return gpu_->query(event); }
  void do_synchronize(EventHandle event) override;
  Nanoseconds do_event_time(EventHandle event) override { return gpu_->event_time(event); }
  void do_copy(void* to, const void* from, std::size_t bytes, CopyKind kind,
               StreamHandle stream) override {
    gpu_->copy(to, from, bytes, kind, stream);
  }
  void do_fill(void* address, unsigned char value, std::size_t bytes,
               StreamHandle stream) override {
    gpu_->fill(address, value, bytes, stream);
  }
  void do_launch(Operation operation, StreamHandle stream) override {
    gpu_->launch(std::move(operation), stream);
  }
  void do_callback(StreamHandle stream, std::function<void()> function, std::uint64_t) override {
    gpu_->callback(stream, std::move(function));
  }

  void take(std::size_t bytes);
  void* place(std::size_t bytes);

  const std::unique_ptr<CudaDevice> gpu_;
  const bool has_memory_;
  const std::size_t total_;
  std::mutex mutex_;  // of everything below, which only numbers use
  std::size_t used_ = 0;
  std::uintptr_t next_ = std::uintptr_t{1} << 46;
  std::unordered_map<void*, std::size_t> sizes_;
  AliasedPages aliased_;
};

/** @brief The program's call, in place of the calling thread's next waits and synchronizations. */
class ProgramCall {
 public:
  /** @param call  makes it, and returns whether it succeeded; it is made at most once */
  explicit ProgramCall(const std::function<bool()>& call) noexcept;
  /** @brief A call that has been made already, with success. */
  ProgramCall() noexcept;
  ~ProgramCall();
  ProgramCall(const ProgramCall&) = delete;
  ProgramCall& operator=(const ProgramCall&) = delete;

  [[nodiscard]] bool was_made() const noexcept { return was_made_; }

 private:
  friend class ProgramDevice;
  /** @return whether a program's call stands for the driver's. @throws DeviceError if it failed */
  static bool replaces();

  const std::function<bool()>* const call_;
  bool was_made_;
};

}  // namespace millrace::interpose
