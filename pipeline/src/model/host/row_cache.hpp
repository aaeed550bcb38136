#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>

#include "millrace/pipeline/model/table_cache.hpp"
#include "model/host/embedding.hpp"
#include "model/row_places.hpp"

/// @file
/// Host kernels of cached tables.

namespace millrace::model::host {

/** @brief Calls `visit(i, row)` for each id; `row` counts through all tables, and is nothing where
 *         the table has no such row. */
template <typename Id, typename Offset, typename Visit>
void visit_rows(std::span<const Lookup> lookups, std::span<const Id> ids,
                std::span<const Offset> offsets, std::size_t batch, const Visit& visit) {
  for (std::size_t f = 0; f < lookups.size(); ++f) {
    const Lookup& lookup = lookups[f];
    const auto first = static_cast<std::uint64_t>(lookup.first_row);
    const auto end = static_cast<std::size_t>(offsets[(f + 1) * batch]);
    for (auto i = static_cast<std::size_t>(offsets[f * batch]); i < end; ++i) {
      std::optional<std::uint64_t> row;
      if (in_range(lookup, ids[i])) row = first + static_cast<std::uint64_t>(ids[i]);
      visit(i, row);
    }
  }
}

/** @brief As `linearise`, but rows are numbered so that those of one set are neighbours. */
template <typename Key, typename Id, typename Offset>
void cache_keys(std::span<Key> keys, std::span<std::uint32_t> positions,
                std::span<const Lookup> lookups, std::span<const Id> ids,
                std::span<const Offset> offsets, std::size_t batch, CacheShape shape) {
  visit_rows(lookups, ids, offsets, batch, [&](std::size_t i, std::optional<std::uint64_t> row) {
    keys[i] = static_cast<Key>(row ? shape.key_of(*row) : shape.keys());
    positions[i] = static_cast<std::uint32_t>(i);
  });
}

/** @brief One set's slots. */
struct SlotSet {
  std::span<std::uint32_t> tags;
  std::span<SlotState> states;

  [[nodiscard]] std::int32_t find(std::uint32_t tag) const {
    const auto found = std::find(tags.begin(), tags.end(), tag);
    return found == tags.end() ? kNoSlot : static_cast<std::int32_t>(found - tags.begin());
  }
  /** @brief Of those that may go: an empty one, else by what the turn says. */
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

/** @brief Rows `begin` to `end` of `unique` are those of one set: first those that are there are
 *         held, then the others take slots as long as there are some. */
template <typename Key>
void claim_in_set(const SlotSet& slots, std::uint64_t set, std::span<const Key> unique,
                  std::span<RowMove> moves, CacheCounts& counts, const CacheShape& shape,
                  const Turn& turn) {
  for (std::size_t i = 0; i < unique.size(); ++i) {
    const std::int32_t way = slots.find(shape.tag_of_key(unique[i]));
    moves[i] = {-1, -1, way};
    if (way == kNoSlot) continue;
    SlotState& state = slots.states[static_cast<std::size_t>(way)];
    state.stamp = turn.stamp;
    ++state.uses;
    ++counts.hits;
  }
  for (std::size_t i = 0; i < unique.size(); ++i) {
    if (moves[i].slot != kNoSlot) continue;
    const std::int32_t way = slots.victim(turn);
    if (way == kNoSlot) {
      ++counts.unplaced;
      continue;
    }
    std::uint32_t& tag = slots.tags[static_cast<std::size_t>(way)];
    SlotState& state = slots.states[static_cast<std::size_t>(way)];
    const bool changed = tag != kNoTag && state.dirty != 0;
    const std::uint32_t comes = shape.tag_of_key(unique[i]);
    moves[i] = {static_cast<std::int64_t>(shape.row_of(set, comes)),
                changed ? static_cast<std::int64_t>(shape.row_of(set, tag)) : -1,
                static_cast<std::int64_t>(set * kWays) + way};
    tag = comes;
    state = {turn.stamp, 1, 0};
    ++counts.loads;
    if (changed) ++counts.write_backs;
  }
}

/** @brief Holds the rows of a batch that are in the cache, and gives slots to the others. */
template <typename Key>
void claim_slots(std::span<RowMove> moves, std::span<std::uint32_t> tags,
                 std::span<SlotState> states, std::span<CacheCounts> counts,
                 std::span<const Key> unique, std::span<const std::uint32_t> count,
                 CacheShape shape, Turn turn) {
  for (std::size_t begin = 0, end = 0; begin < count[0]; begin = end) {
    const std::uint64_t set = shape.set_of_key(unique[begin]);
    while (end < count[0] && shape.set_of_key(unique[end]) == set) ++end;
    claim_in_set<Key>({tags.subspan(set * kWays, kWays), states.subspan(set * kWays, kWays)}, set,
                      unique.subspan(begin, end - begin), moves.subspan(begin, end - begin),
                      counts[0], shape, turn);
  }
}

/** @brief The parameters of rows: all that are at home, or at slots. */
template <typename T>
struct Rows {
  std::span<T> weights, m, v;
};

template <typename T, typename From>
void copy_row(const Rows<T>& to, RowPlace to_place, const Rows<From>& from, RowPlace from_place,
              const Lookup& table, bool m_of_row) {
  const auto width = static_cast<std::size_t>(table.width);
  const auto copy = [](std::span<T> into, std::size_t at, std::span<From> out_of, std::size_t begin,
                       std::size_t size) {
    if (!into.empty()) std::copy_n(out_of.data() + begin, size, into.data() + at);
  };
  copy(to.weights, to_place.weights, from.weights, from_place.weights, width);
  copy(to.m, to_place.m, from.m, from_place.m, m_of_row ? 1 : width);
  copy(to.v, to_place.weights, from.v, from_place.weights, width);
}

/** @brief Writes back rows that go, and brings those that come. */
template <typename T>
void move_rows(const Rows<T>& slots, const Rows<T>& home, std::span<const Lookup> lookups,
               std::span<const RowMove> moves, const RowLayout& layout) {
  for (const RowMove& move : moves) {
    if (move.row < 0) continue;
    const RowPlace slot = layout.at_slot(static_cast<std::size_t>(move.slot));
    if (move.evicted >= 0) {
      const Lookup& table = table_of(lookups.data(), lookups.size(), move.evicted);
      copy_row(home, layout.at_home(table, move.evicted), slots, slot, table, layout.m_of_row);
    }
    const Lookup& table = table_of(lookups.data(), lookups.size(), move.row);
    copy_row(slots, slot, home, layout.at_home(table, move.row), table, layout.m_of_row);
  }
}

/** @brief Holds the rows of a batch, and brings those that are not in the cache. At once: tags
 *         would else say what is not there if the second half of it could not be enqueued. */
template <typename T, typename Key>
void bring_rows(std::span<T> cached, std::span<T> cached_m, std::span<T> cached_v,
                std::span<T> weights, std::span<T> m, std::span<T> v, std::span<std::uint32_t> tags,
                std::span<SlotState> states, std::span<CacheCounts> counts,
                std::span<RowMove> moves, std::span<const Lookup> lookups,
                std::span<const Key> unique, std::span<const std::uint32_t> count, CacheShape shape,
                RowLayout layout, Turn turn) {
  claim_slots<Key>(moves, tags, states, counts, unique, count, shape, turn);
  move_rows<T>({cached, cached_m, cached_v}, {weights, m, v}, lookups, moves.first(count[0]),
               layout);
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

/** @brief Of each id: the slot of its row, as things are. */
template <typename Id, typename Offset>
void locate_ids(std::span<std::int32_t> slots, std::span<const std::uint32_t> tags,
                std::span<const Lookup> lookups, std::span<const Id> ids,
                std::span<const Offset> offsets, std::size_t batch, CacheShape shape) {
  visit_rows(lookups, ids, offsets, batch, [&](std::size_t i, std::optional<std::uint64_t> row) {
    slots[i] = row ? slot_of(tags, *row, shape) : kNoSlot;
  });
}

/** @brief Of each of `rows`: its slot, as things are. */
template <typename Key>
void locate_rows(std::span<std::int32_t> slots, std::span<const std::uint32_t> tags,
                 std::span<const Key> rows, std::span<const std::uint32_t> count,
                 CacheShape shape) {
  for (std::size_t i = 0; i < count[0]; ++i) slots[i] = slot_of(tags, rows[i], shape);
}

/** @brief Writes back what has changed, and leaves every slot empty. */
template <typename T>
void empty_slots(std::span<T> weights, std::span<T> m, std::span<T> v,
                 std::span<std::uint32_t> tags, std::span<SlotState> states,
                 std::span<const T> cached, std::span<const T> cached_m,
                 std::span<const T> cached_v, std::span<const Lookup> lookups, CacheShape shape,
                 RowLayout layout) {
  const Rows<T> home{weights, m, v};
  const Rows<const T> slots{cached, cached_m, cached_v};
  for (std::size_t slot = 0; slot < tags.size(); ++slot) {
    if (tags[slot] != kNoTag && states[slot].dirty != 0) {
      const auto row = static_cast<std::int64_t>(shape.row_of(slot / kWays, tags[slot]));
      const Lookup& table = table_of(lookups.data(), lookups.size(), row);
      copy_row(home, layout.at_home(table, row), slots, layout.at_slot(slot), table,
               layout.m_of_row);
    }
    tags[slot] = kNoTag;
    states[slot] = {};
  }
}

}  // namespace millrace::model::host
