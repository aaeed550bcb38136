#include "observe/packing/sections.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace millrace::packing {

namespace {

using Block = Sections::Block;

struct BlockChange {
  std::int64_t time;
  bool begins;
  std::uint32_t block;
};

std::vector<BlockChange> changes_of(std::span<const Interval> intervals) {
  std::vector<BlockChange> changes;
  changes.reserve(2 * intervals.size());
  for (std::uint32_t i = 0; i < intervals.size(); ++i) {
    changes.push_back({intervals[i].lower, true, i});
    changes.push_back({intervals[i].upper, false, i});
  }
  std::ranges::sort(changes, {}, [](const BlockChange& change) {
    return std::tuple{change.time, change.begins, change.block};
  });
  return changes;
}

std::uint32_t last_section(const std::vector<Block>& blocks) {
  std::uint32_t end = 0;
  for (const Block& block : blocks) end = std::max(end, block.end);
  return end;
}

/** Blocks in order of their first section, and for each section where its own begin. */
struct ByFirst {
  std::vector<std::uint32_t> order;
  std::vector<std::size_t> begins;

  ByFirst(const std::vector<Block>& blocks, std::uint32_t sections)
      : order(blocks.size()), begins(std::size_t{sections} + 1) {
    for (const Block& block : blocks) ++begins[block.first + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    std::vector<std::size_t> next = begins;
    for (std::uint32_t i = 0; i < blocks.size(); ++i) order[next[blocks[i].first]++] = i;
  }

  /** Calls `visit` for the blocks that begin in one of these sections. */
  template <typename Visit>
  void each(std::uint32_t from, std::uint32_t to, Visit visit) const {
    for (std::size_t i = begins[from]; i < begins[to]; ++i) visit(order[i]);
  }
};

}  // namespace

std::vector<Block> cut_into_sections(std::span<const Interval> intervals) {
  std::vector<Block> blocks(intervals.size());
  std::uint32_t section = 0;
  bool grew = false;  // since the last end: then the next end closes a section
  for (const BlockChange& change : changes_of(intervals)) {
    Block& block = blocks[change.block];
    if (change.begins) {
      block = {section, section, intervals[change.block].bytes};
      grew = true;
      continue;
    }
    if (std::exchange(grew, false)) ++section;
    block.end = section;
  }
  return blocks;
}

std::optional<Sections> list_sections(std::vector<Block> blocks, std::size_t most) {
  const std::uint32_t count = last_section(blocks);
  std::size_t members = 0;
  for (const Block& block : blocks) members += block.end - block.first;
  if (members > most) return std::nullopt;

  Sections sections{.blocks = std::move(blocks), .members = {}, .overlaps = {}};
  const ByFirst by_first{sections.blocks, count};
  std::vector<std::uint32_t> live;
  for (std::uint32_t section = 0; section < count; ++section) {
    std::erase_if(live, [&](std::uint32_t i) { return sections.blocks[i].end <= section; });
    by_first.each(section, section + 1, [&](std::uint32_t i) { live.push_back(i); });
    for (const std::uint32_t i : live) sections.members.add(i);
    sections.members.end_list();
  }
  for (std::uint32_t i = 0; i < sections.blocks.size(); ++i) {
    const Block& block = sections.blocks[i];
    for (const std::uint32_t other : sections.members[block.first]) {
      if (other != i) sections.overlaps.add(other);
    }
    by_first.each(block.first + 1, block.end, [&](std::uint32_t j) { sections.overlaps.add(j); });
    sections.overlaps.end_list();
    if (members + sections.overlaps.total() > most) return std::nullopt;
  }
  return sections;
}

}  // namespace millrace::packing
