#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "millrace/observe/packing.hpp"

namespace millrace::packing {

/** Lists of numbers, stored one after the other in one array. */
class Lists {
 public:
  [[nodiscard]] std::span<const std::uint32_t> operator[](std::size_t i) const {
    return {items_.data() + begins_[i], begins_[i + 1] - begins_[i]};
  }
  [[nodiscard]] std::size_t size() const noexcept { return begins_.size() - 1; }
  [[nodiscard]] std::size_t total() const noexcept { return items_.size(); }

  void add(std::uint32_t item) { items_.push_back(item); }
  void end_list() { begins_.push_back(items_.size()); }

 private:
  std::vector<std::size_t> begins_{0};
  std::vector<std::uint32_t> items_;
};

/**
 * Blocks, and time as sections. A section is a moment whose set of live blocks is not a subset of
 * the set at another moment. Two blocks live at the same time if and only if they share a section.
 */
struct Sections {
  struct Block {
    std::uint32_t first;  ///< section
    std::uint32_t end;    ///< the section after the last
    std::uint64_t bytes;
  };

  std::vector<Block> blocks;
  Lists members;   ///< by section: blocks that live in it
  Lists overlaps;  ///< by block: blocks that share a section with it

  [[nodiscard]] std::size_t count() const noexcept { return members.size(); }
};

/** Returns the sections in which each interval lives. Intervals must not be empty. */
[[nodiscard]] std::vector<Sections::Block> cut_into_sections(std::span<const Interval> intervals);

/** Adds the lists; returns nothing if they have more than `most` numbers. */
[[nodiscard]] std::optional<Sections> list_sections(std::vector<Sections::Block> blocks,
                                                    std::size_t most);

}  // namespace millrace::packing
