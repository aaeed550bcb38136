#pragma once

#include <cuda.h>

#include <cstddef>
#include <mutex>
#include <set>
#include <vector>

namespace millrace::cuda {

/** @brief One page of physical memory, mapped or not. */
struct PhysicalPage {
  CUmemGenericAllocationHandle handle = 0;
};

/** @brief The size of one page. @throws DeviceError if memory cannot be mapped */
[[nodiscard]] std::size_t page_bytes(int ordinal);

/**
 * @brief Reserving, creating and mapping device memory: what growable ranges are made of.
 *
 * Works in pages, each with a handle of its own: unmapping takes whole mappings, so that with one
 * handle for many pages none of them could go back alone. Addresses and sizes are multiples of
 * `page_bytes()`. Acts at host time: unmap what the device is known to have finished with, and
 * nothing else. Knows only which GPUs have access, and to what; thread-safe. Every call may throw
 * DeviceError.
 */
class VirtualMemory {
 public:
  /**
   * @param page  bytes of one page, in multiples of the least that can be mapped; 0: that
   * @throws DeviceError (not_supported) if the GPU or its driver does not support it
   */
  explicit VirtualMemory(int ordinal, std::size_t page = 0);

  [[nodiscard]] std::size_t page_bytes() const noexcept { return page_bytes_; }

  /** @brief Address space without memory. */
  [[nodiscard]] std::byte* reserve(std::size_t bytes) const;
  /** @brief Gives address space back; nothing may be mapped there. */
  void free(std::byte* range, std::size_t bytes) const;

  /** @throws DeviceError (out_of_memory) when the GPU has no page left */
  [[nodiscard]] PhysicalPage create() const;
  /** @brief The memory goes back to the driver when it is mapped nowhere any more. */
  void release(PhysicalPage page) const;

  /** @brief Not to be touched before `allow` has been called for it. */
  void map(std::byte* address, PhysicalPage page) const;
  /**
   * @brief Lets the device itself, and its peers, read and write a range, all of it mapped. One
   *        call for many.
   */
  void allow(std::byte* address, std::size_t bytes);
  /** @brief Lets another GPU read and write all that is allowed now, and what will be. */
  void allow_peer(int ordinal);
  /**
   * @brief New pages, mapped and allowed, that go back to the driver when they are unmapped.
   * @throws DeviceError (out_of_memory when the GPU has too few); nothing is mapped then
   */
  void fill(std::byte* address, std::size_t bytes);
  /**
   * @brief Maps the pages at `from`, which are all mapped, at `to` as well, allowed. They go back
   *        to the driver when they are unmapped from both.
   * @throws DeviceError; nothing is mapped at `to` then
   */
  void alias(std::byte* to, std::byte* from, std::size_t bytes);
  /** @brief Unmaps memory that is all mapped. Memory mapped later needs its access rights again. */
  void unmap(std::byte* address, std::size_t bytes);

 private:
  [[nodiscard]] PhysicalPage page_at(std::byte* address) const;
  template <typename NextPage>
  void map_all(std::byte* address, std::size_t bytes, const NextPage& next_page);
  void set_access(std::byte* address, std::size_t bytes, const CUmemAccessDesc* to,
                  std::size_t count) const;

  CUmemAllocationProp properties_{};
  std::size_t page_bytes_ = 0;
  std::mutex mutex_;
  std::vector<CUmemAccessDesc> access_;  ///< the device itself, and its peers
  std::set<std::byte*> allowed_;         ///< pages
};

}  // namespace millrace::cuda
