#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "allocator/machine/mapped_pages.hpp"
#include "millrace/device/aliased_pages.hpp"

namespace millrace::bench {

/// Addresses without memory. A freed address is reused for the same size.
class NullMemory {
 public:
  static constexpr std::size_t kTotal = std::size_t{4} << 40;

  /// @param page  page size of growable ranges in bytes
  explicit NullMemory(std::size_t page) : page_(page) { pieces_.reserve(kUsualPieces); }
  [[nodiscard]] std::size_t page() const noexcept { return page_; }

  /// @return nullptr if no room is left
  [[nodiscard]] void* allocate(std::size_t bytes);
  void free(void* address);

  /// Reserves addresses without pages. @return nullptr if no addresses are left
  [[nodiscard]] void* reserve(std::size_t bytes);
  /// @return false if no room is left
  [[nodiscard]] bool map(std::size_t bytes);
  void unmap(const void* address, std::size_t bytes);
  void alias(const void* to, const void* from, std::size_t bytes);

  [[nodiscard]] std::size_t held() const;
  [[nodiscard]] std::size_t peak() const;
  [[nodiscard]] std::uint64_t mapped_pages() const;

 private:
  /// An allocation of the driver. It keeps its size when its address is reused.
  struct Piece {
    std::uintptr_t address = 0;
    std::size_t bytes = 0;
  };
  using Addresses = std::pmr::vector<std::uintptr_t>;
  // Up to this number of allocations, no call asks the system for host memory.
  static constexpr std::size_t kUsualPieces = 16384;

  bool take(std::size_t bytes);
  void* place(std::size_t bytes);
  void* reuse(std::size_t bytes);

  const std::size_t page_;
  MappedPages pages_;
  std::pmr::unsynchronized_pool_resource pool_{&pages_};
  mutable std::mutex mutex_;
  std::uintptr_t next_ = std::uintptr_t{1} << 32;
  std::size_t held_ = 0, peak_ = 0;
  std::uint64_t mapped_pages_ = 0;
  AliasedPages aliased_{page_, &pool_};
  std::pmr::vector<Piece> pieces_{&pages_};  // sorted by address, since new addresses ascend
  std::pmr::unordered_map<std::size_t, Addresses> freed_{&pool_};
};

}  // namespace millrace::bench
