#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>

#include "millrace/pipeline/model/table_cache.hpp"
#include "model/cache_arguments.hpp"
#include "model/host/embedding.hpp"
#include "model/row_places.hpp"

/// @file
/// Host kernels of cached tables.

namespace millrace::model::host {

/**
 * @brief Calls `visit(i, row)` for each id. `row` counts through all tables; it is nothing for an
 * id out of range.
 */
template <typename Id, typename Offset, typename Visit>
void visit_rows(const BagLayout<Offset>& bags, std::span<const Id> ids, const Visit& visit) {
  for (std::size_t f = 0; f < bags.lookups.size(); ++f) {
    const Lookup& lookup = bags.lookups[f];
    const auto first = static_cast<std::uint64_t>(lookup.first_row);
    const std::size_t end = bags.begin((f + 1) * bags.batch);
    for (std::size_t i = bags.begin(f * bags.batch); i < end; ++i) {
      std::optional<std::uint64_t> row;
      if (in_range(lookup, ids[i])) row = first + static_cast<std::uint64_t>(ids[i]);
      visit(i, row);
    }
  }
}

template <typename Key, typename Id, typename Offset>
void cache_keys(const CacheKeysArguments<Key, Id, Offset>& to) {
  visit_rows<Id>(to.bags, to.ids, [&](std::size_t i, std::optional<std::uint64_t> row) {
    to.keys[i] = static_cast<Key>(row ? to.shape.key_of(*row) : to.shape.keys());
    to.positions[i] = static_cast<std::uint32_t>(i);
  });
}

/** @brief The slots of one set. */
struct SlotSet {
  std::span<std::uint32_t> tags;
  std::span<SlotState> states;

  [[nodiscard]] std::int32_t find(std::uint32_t tag) const {
    const auto found = std::find(tags.begin(), tags.end(), tag);
    return found == tags.end() ? kNoSlot : static_cast<std::int32_t>(found - tags.begin());
  }
  /** @brief Returns the slot to evict: an empty one if possible, otherwise by the turn's rule. */
  [[nodiscard]] std::int32_t victim(const Turn& turn) const {
    const auto rank = [&](std::size_t way) {
      const SlotState& state = states[way];
      return std::tuple{turn.least_used ? state.uses : 0, state.stamp};
    };
    std::int32_t best = kNoSlot;
    for (std::size_t way = 0; way < kWays; ++way) {
      if (states[way].stamp >= turn.held_from) continue;
      if (best == kNoSlot || rank(way) < rank(static_cast<std::size_t>(best))) {
        best = static_cast<std::int32_t>(way);
      }
    }
    return best;
  }
};

/** @brief Claims slots for the rows of a batch, set by set. */
template <typename T, typename Key>
class SlotClaims {
 public:
  explicit SlotClaims(const BringRowsArguments<T, Key>& arguments) : arguments_(arguments) {}

  /** @brief Marks the rows that are in the cache as used, and gives slots to the others. */
  void claim() const {
    const CacheShape& shape = arguments_.shape;
    const ArrayView<const Key> keys = arguments_.wanted.keys;
    const std::size_t count = arguments_.wanted.count[0];
    for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
      const std::uint64_t set = shape.set_of_key(keys[begin]);
      while (end < count && shape.set_of_key(keys[end]) == set) ++end;
      const SlotSet slots = slots_of(set);
      for (std::size_t i = begin; i < end; ++i) hold(slots, i);
      for (std::size_t i = begin; i < end; ++i) take(slots, set, i);
    }
  }

 private:
  [[nodiscard]] SlotSet slots_of(std::uint64_t set) const {
    const std::span<std::uint32_t> tags = arguments_.slots.tags;
    const std::span<SlotState> states = arguments_.slots.states;
    return {tags.subspan(set * kWays, kWays), states.subspan(set * kWays, kWays)};
  }

  /** @brief Marks a row that is in the cache as used. */
  void hold(const SlotSet& slots, std::size_t i) const {
    const std::uint32_t tag = arguments_.shape.tag_of_key(arguments_.wanted.keys[i]);
    const std::int32_t way = slots.find(tag);
    arguments_.moves[i] = {-1, -1, way};
    if (way == kNoSlot) return;
    SlotState& state = slots.states[static_cast<std::size_t>(way)];
    state.stamp = arguments_.turn.stamp;
    ++state.uses;
    ++arguments_.counts[0].hits;
  }

  /** @brief Gives a slot to a row that is not in the cache, as long as a slot may be evicted. */
  void take(const SlotSet& slots, std::uint64_t set, std::size_t i) const {
    RowMove& move = arguments_.moves[i];
    CacheCounts& counts = arguments_.counts[0];
    const CacheShape& shape = arguments_.shape;
    if (move.slot != kNoSlot) return;
    const std::int32_t way = slots.victim(arguments_.turn);
    if (way == kNoSlot) {
      ++counts.unplaced;
      return;
    }
    std::uint32_t& tag = slots.tags[static_cast<std::size_t>(way)];
    SlotState& state = slots.states[static_cast<std::size_t>(way)];
    const bool changed = tag != kNoTag && state.dirty != 0;
    const std::uint32_t comes = shape.tag_of_key(arguments_.wanted.keys[i]);
    move = {static_cast<std::int64_t>(shape.row_of(set, comes)),
            changed ? static_cast<std::int64_t>(shape.row_of(set, tag)) : -1,
            static_cast<std::int64_t>(set * kWays) + way};
    tag = comes;
    state = {arguments_.turn.stamp, 1, 0};
    ++counts.loads;
    if (changed) ++counts.write_backs;
  }

  const BringRowsArguments<T, Key>& arguments_;
};

template <typename T, typename From>
void copy_row(const RowPointers<T>& to, const RowPointers<From>& from, const Lookup& table,
              const RowLayout& layout) {
  const auto width = static_cast<std::size_t>(table.width);
  std::copy_n(from.weights, width, to.weights);
  if (to.first_moment != nullptr) {
    std::copy_n(from.first_moment, layout.moment_of_row ? 1 : width, to.first_moment);
  }
  if (to.second_moment != nullptr) std::copy_n(from.second_moment, width, to.second_moment);
}

/** @brief Writes back the evicted row, and brings the new one. */
template <typename T, typename Key>
void move_row(const BringRowsArguments<T, Key>& arguments, const RowMove& move) {
  const RowLayout& layout = arguments.layout;
  const RowPointers<T> slot =
      arguments.cached.all().at(layout.at_slot(static_cast<std::size_t>(move.slot)));
  const auto copy = [&](std::int64_t row, bool back) {
    const Lookup& table = table_of(arguments.lookups.data(), arguments.lookups.size(), row);
    const RowPointers<T> home = arguments.home.all().at(layout.at_home(table, row));
    copy_row(back ? home : slot, back ? slot : home, table, layout);
  };
  if (move.evicted >= 0) copy(move.evicted, true);
  copy(move.row, false);
}

/**
 * @brief Does both parts in one operation: if the second part could not be enqueued, tags would
 * name rows that are not at their slots.
 */
template <typename T, typename Key>
void bring_rows(const BringRowsArguments<T, Key>& arguments) {
  SlotClaims<T, Key>{arguments}.claim();
  for (std::size_t i = 0; i < arguments.wanted.count[0]; ++i) {
    if (arguments.moves[i].row >= 0) move_row(arguments, arguments.moves[i]);
  }
}

[[nodiscard]] inline std::int32_t slot_of(std::span<const std::uint32_t> tags, std::uint64_t row,
                                          const CacheShape& shape) {
  const std::uint64_t first = shape.set_of(row) * kWays;
  const auto set = tags.subspan(first, kWays);
  const auto found = std::find(set.begin(), set.end(), shape.tag_of(row));
  return found == set.end()
             ? kNoSlot
             : static_cast<std::int32_t>(first) + static_cast<std::int32_t>(found - set.begin());
}

template <typename Id, typename Offset>
void locate_ids(const LocateIdsArguments<Id, Offset>& to) {
  visit_rows<Id>(to.bags, to.ids, [&](std::size_t i, std::optional<std::uint64_t> row) {
    to.slots[i] = row ? slot_of(to.tags, *row, to.shape) : kNoSlot;
  });
}

template <typename Key>
void locate_rows(const LocateRowsArguments<Key>& to) {
  for (std::size_t i = 0; i < to.count[0]; ++i) {
    to.slots[i] = slot_of(to.tags, to.rows[i], to.shape);
  }
}

template <typename T>
void empty_slots(const EmptySlotsArguments<T>& arguments) {
  const RowLayout& layout = arguments.layout;
  const auto lookups = arguments.lookups;
  for (std::size_t slot = 0; slot < arguments.slots.tags.size(); ++slot) {
    std::uint32_t& tag = arguments.slots.tags[slot];
    SlotState& state = arguments.slots.states[slot];
    if (tag != kNoTag && state.dirty != 0) {
      const auto row = static_cast<std::int64_t>(arguments.shape.row_of(slot / kWays, tag));
      const Lookup& table = table_of(lookups.data(), lookups.size(), row);
      copy_row(arguments.home.all().at(layout.at_home(table, row)),
               arguments.cached.all().at(layout.at_slot(slot)), table, layout);
    }
    tag = kNoTag;
    state = {};
  }
}

}  // namespace millrace::model::host
