#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "millrace/device/address_space.hpp"
#include "millrace/round_up.hpp"

namespace millrace {

/**
 * @brief How cudaMalloc places blocks that are smaller than a page of the driver's: several share
 *        a page, and a page without blocks goes back.
 *
 * A block goes to the page that it fills best, among equals to the oldest one. Both the unit and
 * this choice are assumed: docs/cuda-facts.md measured that small blocks share a page.
 */
class SmallBlocks {
 public:
  explicit SmallBlocks(std::size_t page_bytes) : page_bytes_(page_bytes) {}

  struct Block {
    std::uint32_t page = 0;  ///< number of its page
    std::size_t offset = 0;
    bool opens = false;  ///< whether its page was taken for it
  };

  /** @param bytes  above 0, less than a page */
  [[nodiscard]] Block take(std::size_t bytes) {
    bytes = round_up(bytes, kUnit);
    for (auto room = by_room_.lower_bound({bytes, 0}); room != by_room_.end(); ++room) {
      const std::uint32_t number = room->second;
      Page& page = pages_.at(number);
      // What is free in a page may be in several holes.
      if (const auto offset = page.space.take(bytes)) {
        update(number, page);
        return {number, *offset, false};
      }
    }
    const std::uint32_t number = next_++;
    Page& page = pages_.emplace(number, page_bytes_).first->second;
    const std::size_t offset = *page.space.take(bytes);
    update(number, page);
    return {number, offset, true};
  }

  /** @return whether its page is empty and goes back */
  bool give(const Block& block) {
    Page& page = pages_.at(block.page);
    page.space.give(block.offset);
    if (page.space.taken().empty()) {
      by_room_.erase({page.room, block.page});
      pages_.erase(block.page);
      return true;
    }
    update(block.page, page);
    return false;
  }

 private:
  static constexpr std::size_t kUnit = 512;

  struct Page {
    explicit Page(std::size_t bytes) : space(bytes), room(bytes) {}
    simulation::AddressSpace space;
    std::size_t room;
  };

  void update(std::uint32_t number, Page& page) {
    by_room_.erase({page.room, number});
    page.room = page_bytes_ - page.space.taken_bytes();
    if (page.room != 0) by_room_.emplace(page.room, number);
  }

  const std::size_t page_bytes_;
  std::uint32_t next_ = 0;
  std::map<std::uint32_t, Page> pages_;
  std::set<std::pair<std::size_t, std::uint32_t>> by_room_;  // free bytes of a page, its number
};

}  // namespace millrace
