#pragma once

#include <cstddef>
#include <set>
#include <vector>

namespace millrace::simulation {

/**
 * @brief The memory under growable ranges, in pages, each mapped at one address or at several.
 *
 * Its contents are a sparse file in memory. A page that goes back becomes a hole and reads as zero
 * when it is taken again. Without data there is no file.
 */
class PhysicalPages {
 public:
  using Page = std::size_t;  ///< a number from 0

  PhysicalPages(std::size_t page_bytes, std::size_t most_bytes, bool data);
  ~PhysicalPages();
  PhysicalPages(const PhysicalPages&) = delete;
  PhysicalPages& operator=(const PhysicalPages&) = delete;

  [[nodiscard]] std::size_t page_bytes() const noexcept { return page_bytes_; }
  [[nodiscard]] std::size_t used_bytes() const noexcept { return used_ * page_bytes_; }

  /** @brief The lowest page that is not in use. It is mapped once. */
  [[nodiscard]] Page take();
  void share(Page page) { ++mappings_[page]; }  ///< it is mapped once more
  void drop(Page page);                         ///< and once less: it may go back

  /** @brief Shows the page to kernels at `address`, poisoned. Only with data. */
  void show(Page page, std::byte* address) const;

 private:
  const std::size_t page_bytes_;
  int file_ = -1;
  std::vector<unsigned> mappings_;  // by page
  std::set<Page> free_;             // of these
  std::size_t used_ = 0;
};

}  // namespace millrace::simulation
