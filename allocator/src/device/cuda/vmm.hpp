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

/**
 * @brief Returns the size of one page in bytes.
 * @throws DeviceError if memory cannot be mapped
 */
[[nodiscard]] std::size_t page_bytes(int ordinal);

/**
 * @brief Reserves, creates and maps device memory, for growable ranges.
 *
 * Works in pages, each with a handle of its own. The driver unmaps only whole mappings, so with one
 * handle for many pages none of them could be given back alone. Addresses and sizes are multiples
 * of `page_bytes()`. All calls act at host time: unmap only memory that the device is known to have
 * finished with. The object knows only which GPUs have access, and to which pages. Thread-safe.
 * Every call may throw DeviceError.
 */
class VirtualMemory {
 public:
  /**
   * @param page  bytes of one page, a multiple of the smallest unit that can be mapped; 0: that
   *              unit
   * @throws DeviceError (not_supported) if the GPU or its driver does not support it
   */
  explicit VirtualMemory(int ordinal, std::size_t page = 0);

  [[nodiscard]] std::size_t page_bytes() const noexcept { return page_bytes_; }

  /** @brief Reserves addresses without memory. */
  [[nodiscard]] std::byte* reserve(std::size_t bytes) const;
  /** @brief Releases addresses. Nothing may be mapped there. */
  void free(std::byte* range, std::size_t bytes) const;

  /**
   * @brief Creates a page that is not mapped.
   * @throws DeviceError (out_of_memory) if the GPU has no page left
   */
  [[nodiscard]] PhysicalPage create() const;
  /**
   * @brief Releases a handle. The memory returns to the driver when it is not mapped anywhere
   *        either.
   */
  void release(PhysicalPage page) const;

  /** @brief Maps a page. It must not be accessed before `allow` was called for it. */
  void map(std::byte* address, PhysicalPage page) const;
  /**
   * @brief Lets the device and its peers read and write a range that is all mapped. One call is
   *        enough for many pages.
   */
  void allow(std::byte* address, std::size_t bytes);
  /** @brief Lets another GPU read and write all memory that is allowed now or later. */
  void allow_peer(int ordinal);
  /**
   * @brief Maps new pages and allows them. They return to the driver when they are unmapped.
   * @throws DeviceError (out_of_memory if the GPU has too few pages); nothing is mapped then
   */
  void fill(std::byte* address, std::size_t bytes);
  /**
   * @brief Maps the pages at `from`, which are all mapped, at `to` as well, and allows them. They
   *        return to the driver when they are unmapped at both addresses.
   * @throws DeviceError; nothing is mapped at `to` then
   */
  void alias(std::byte* to, std::byte* from, std::size_t bytes);
  /** @brief Unmaps memory that is all mapped. Memory mapped there later must be allowed again. */
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
  std::set<std::byte*> allowed_;         ///< addresses of the pages that are allowed
};

}  // namespace millrace::cuda
