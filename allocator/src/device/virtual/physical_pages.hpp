#pragma once

#include <cstddef>
#include <set>
#include <vector>

namespace millrace::simulation {

/**
 * @brief The memory of growable ranges, in pages. Each page in use is mapped at one or more
 *        addresses.
 *
 * The contents are a sparse file in memory. A page that is given back becomes a hole, and reads as
 * zero when it is taken again. Without data no file exists.
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

  /** @brief Takes the lowest free page, and counts one mapping of it. */
  [[nodiscard]] Page take();
  void share(Page page) { ++mappings_[page]; }  ///< counts one more mapping
  void drop(Page page);  ///< counts one mapping less; gives the page back if it was the last

  /** @brief Maps the page at the kernels' address `address`, poisoned. Only with data. */
  void show(Page page, std::byte* address) const;

 private:
  const std::size_t page_bytes_;
  int file_ = -1;
  std::vector<unsigned> mappings_;  // number of mappings of each page
  std::set<Page> free_;             // pages that are not in use
  std::size_t used_ = 0;
};

}  // namespace millrace::simulation
