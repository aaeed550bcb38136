#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "millrace/device/aliased_pages.hpp"
#include "millrace/device/cuda_device.hpp"
#include "millrace/device/forwarding_device.hpp"

namespace millrace::interpose {

/**
 * @brief A GPU on which the program makes its calls itself. Each call is made once, with the
 *        program's own arguments, and the order that it proves is still noted.
 *
 * While a ProgramCall exists, a wait or synchronization of the calling thread on this device makes
 * the program's call instead of the driver's. OrderedDevice then notes the order that it proves.
 *
 * With Memory::numbers, the device has the GPU's streams and events, and its addresses are only
 * numbers. An allocator decides as usual and reserves nothing. The device offers the bytes that the
 * allocator could have on the GPU: the free bytes, and the bytes that the program's own allocators
 * hold for the same requests.
 */
class ProgramDevice final : public ForwardingDevice {
 public:
  enum class Memory : std::uint8_t { of_gpu, numbers };

  ProgramDevice(std::unique_ptr<CudaDevice> gpu, Memory memory)
      : ForwardingDevice(*gpu),
        gpu_(std::move(gpu)),
        has_memory_(memory == Memory::of_gpu),
        total_(gpu_->memory_info().total),
        aliased_(gpu_->page_bytes()) {}

  [[nodiscard]] CudaDevice& gpu() noexcept { return *gpu_; }

  /** @brief With numbers: sets the bytes that the program's own allocators hold for the requests
   *         that this device's allocator serves, too. */
  void set_own(std::size_t bytes) noexcept { own_ = bytes; }
  /** @brief With numbers: maximum of the bytes that were available when the allocator grew; 0 if it
   *         has not grown. */
  [[nodiscard]] std::size_t most_available() const noexcept { return most_available_; }

 private:
  void* do_allocate(std::size_t bytes) override;
  void do_free(void* address) override;
  MemoryInfo do_memory_info() override;
  void* do_reserve_range(std::size_t bytes) override;
  void do_release_range(void* base, std::size_t bytes) override;
  void do_map(void* address, std::size_t bytes) override;
  void do_unmap(void* address, std::size_t bytes) override;
  void do_alias(void* to, void* from, std::size_t bytes) override;
  void do_synchronize(StreamHandle stream) override;
  void do_synchronize() override;
  void do_wait(StreamHandle stream, EventHandle event) override;
  void do_synchronize(EventHandle event) override;

  [[nodiscard]] std::size_t available();
  void take(std::size_t bytes);
  void* place(std::size_t bytes);

  const std::unique_ptr<CudaDevice> gpu_;
  const bool has_memory_;
  const std::size_t total_;
  std::atomic<std::size_t> own_{0}, most_available_{0};
  std::mutex mutex_;  // guards the members below, for numbers
  std::size_t used_ = 0;
  std::uintptr_t next_ = std::uintptr_t{1} << 46;
  std::unordered_map<void*, std::size_t> sizes_;
  AliasedPages aliased_;
};

/** @brief A call of the program that replaces the calling thread's waits and synchronizations. */
class ProgramCall {
 public:
  /** @param call  makes the call, and returns whether it succeeded; called at most once */
  explicit ProgramCall(const std::function<bool()>& call) noexcept;
  /** @brief A call that has already succeeded. */
  ProgramCall() noexcept;
  ~ProgramCall();
  ProgramCall(const ProgramCall&) = delete;
  ProgramCall& operator=(const ProgramCall&) = delete;

  [[nodiscard]] bool was_made() const noexcept { return was_made_; }

 private:
  friend class ProgramDevice;
  /** @return whether a program's call replaces the driver's. @throws DeviceError if it failed */
  static bool replaces();

  const std::function<bool()>* const call_;
  bool was_made_;
};

}  // namespace millrace::interpose
