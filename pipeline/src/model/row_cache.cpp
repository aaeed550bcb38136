#include "model/row_cache.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "model/cuda/kernels.hpp"
#include "model/dispatch.hpp"
#include "model/host/row_cache.hpp"
#include "model/row_runs.hpp"
#include "model/shapes.hpp"

namespace millrace {

std::string_view to_string(CachePolicy policy) noexcept {
  return policy == CachePolicy::lru ? "lru" : "lfu";
}

namespace model {
namespace {

// Bytes of a set's tags and states, which a search in the cache reads for each row.
constexpr auto kSetBytes = static_cast<double>(kWays * (sizeof(std::uint32_t) + sizeof(SlotState)));

CacheShape shape_of(const TableCache& options, std::size_t rows) {
  if (!(options.load_factor > 0)) {
    throw std::invalid_argument{fmt::format(
        "a cache holds a share of the tables' rows above 0, and not {}", options.load_factor)};
  }
  const auto sets_for = [](double slots) {
    return std::max(1.0, std::ceil(slots / static_cast<double>(kWays)));
  };
  const auto all = static_cast<double>(rows);
  const double sets = sets_for(std::min(all, std::ceil(all * options.load_factor)));
  CacheShape shape{.sets = static_cast<std::uint64_t>(sets)};
  shape.of_set = (rows + shape.sets - 1) / shape.sets;
  // A tag is the row's number within its set, in 32 bits: half the size of a row's number. A slot's
  // number must be positive in 32 bits, because kernels use negative numbers for rows without a
  // slot.
  if (shape.of_set >= kNoTag ||
      shape.sets * kWays > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
    throw std::invalid_argument{fmt::format(
        "a cache of {} slots for {} rows: fewer than 2^31, and at least one set for 2^32 rows",
        shape.sets * kWays, rows)};
  }
  return shape;
}

}  // namespace

RowCache::RowCache(ModelContext& context, const TableCache& options, const CachedTables& tables)
    : context_(context),
      options_(options),
      tables_(tables),
      shape_(shape_of(options, tables.rows)),
      weights_(context.main(), tables.weights),
      first_moment_(context.main(), tables.first_moment),
      second_moment_(context.main(), tables.second_moment),
      held_(std::make_shared<std::set<std::uint64_t>>()) {
  Allocator& memory = context.allocator();
  Stream& main = context.main();
  const auto& tags = context.tags();
  const std::size_t slots = tables.rows == 0 ? 0 : slot_count();
  const RowPlace end = tables.layout.at_slot(slots);
  slots_ = {memory, end.weights, main, tags.tables};
  slots_first_ = {memory, tables.first_moment == 0 ? 0 : end.first_moment, main,
                  tags.optimizer_state};
  slots_second_ = {memory, tables.second_moment == 0 ? 0 : end.weights, main, tags.optimizer_state};
  tags_ = {memory, slots, main, tags.tables};
  states_ = {memory, slots, main, tags.tables};
  counts_ = {memory, 1, main, tags.tables};
  Device& device = context.device();
  const auto fill = [&](void* data, unsigned char value, std::size_t bytes) {
    if (bytes != 0) device.fill(data, value, bytes, main.handle());
  };
  fill(tags_.data(), 0xFF, slots * sizeof(std::uint32_t));
  fill(states_.data(), 0, slots * sizeof(SlotState));
  fill(counts_.data(), 0, sizeof(CacheCounts));
}

HeldRows RowCache::prefetch(const BatchBags& bags, const ExpectedRows& expected, StreamRef stream) {
  // Rows of a prefetch are held until its batch has been updated. No later prefetch evicts them,
  // although the batches in between have not used them yet.
  const std::uint64_t stamp = ++prefetches_;
  HeldRows held{held_, stamp};
  if (bags.ids_count() == 0) return held;
  const Turn turn{stamp, *held_->begin(), options_.policy == CachePolicy::lfu};
  const auto& layout = bags.batch.layout();
  with_types(layout.value_type, layout.length_type, [&]<typename Id, typename Offset>(Id, Offset) {
    if (shape_.keys() <= std::numeric_limits<std::uint32_t>::max()) {
      bring<Id, Offset, std::uint32_t>(bags, expected, turn, stream);
    } else {
      bring<Id, Offset, std::uint64_t>(bags, expected, turn, stream);
    }
  });
  return held;
}

// Keys are sorted by set, so one warp decides about all rows of a set that a batch needs. The
// result does not depend on timing, and no set needs a lock.
template <typename Id, typename Offset, typename Key>
void RowCache::bring(const BatchBags& bags, const ExpectedRows& expected, const Turn& turn,
                     StreamRef stream) {
  const std::size_t count = bags.ids_count();
  const RowRuns<Key> runs = find_row_runs<Key>(
      context_, count, static_cast<Key>(shape_.keys()), stream, [&](auto keys, auto positions) {
        enqueue<host::cache_keys<Key, Id, Offset>, cuda::cache_keys<Key, Id, Offset>>(
            context_, stream,
            {.name = "cache keys",
             .bytes = static_cast<double>(count) * (sizeof(Id) + sizeof(Key) + 4)},
            CacheKeysArguments<Key, Id, Offset>{.keys = keys,
                                                .positions = positions,
                                                .bags = bags.layout<Offset>(),
                                                .ids = bags.ids<Id>(),
                                                .shape = shape_});
      });
  const Array<RowMove> moves = context_.scratch<RowMove>(count, stream);
  enqueue<host::bring_rows<float, Key>, cuda::bring_rows<Key>>(
      context_, stream,
      {.name = "bring rows",
       .bytes = expected.unique() * (kSetBytes + 2 * sizeof(RowMove)) + 2 * expected.loaded_bytes(),
       .host_read = expected.loaded_bytes(),
       .host_written = expected.loaded_bytes()},
      BringRowsArguments<float, Key>{
          .cached = cached(),
          .home = home(),
          .slots = {.tags = updates(tags_), .states = states()},
          .counts = updates(counts_),
          .moves = writes(moves),
          .lookups = bags.lookups,
          .wanted = {.keys = reads(runs.unique), .count = reads(runs.count)},
          .shape = shape_,
          .layout = tables_.layout,
          .turn = turn});
}

Array<std::int32_t> RowCache::locate(const BatchBags& bags, StreamRef stream) {
  Array<std::int32_t> slots = context_.scratch<std::int32_t>(bags.ids_count(), stream);
  if (slots.size() == 0) return slots;
  const auto& layout = bags.batch.layout();
  with_types(layout.value_type, layout.length_type, [&]<typename Id, typename Offset>(Id, Offset) {
    enqueue<host::locate_ids<Id, Offset>, cuda::locate_ids<Id, Offset>>(
        context_, stream,
        {.name = "locate",
         .bytes = static_cast<double>(slots.size()) * (sizeof(Id) + (1 + kWays) * 4)},
        LocateIdsArguments<Id, Offset>{.slots = writes(slots),
                                       .tags = reads(tags_),
                                       .bags = bags.layout<Offset>(),
                                       .ids = bags.ids<Id>(),
                                       .shape = shape_});
  });
  return slots;
}

template <typename Key>
Array<std::int32_t> RowCache::locate(const Key* rows, std::size_t most, const std::uint32_t* count,
                                     StreamRef stream) {
  Array<std::int32_t> slots = context_.scratch<std::int32_t>(most, stream);
  enqueue<host::locate_rows<Key>, cuda::locate_rows<Key>>(
      context_, stream,
      {.name = "locate", .bytes = static_cast<double>(most) * (sizeof(Key) + (1 + kWays) * 4)},
      LocateRowsArguments<Key>{.slots = writes(slots),
                               .tags = reads(tags_),
                               .rows = reads(rows, most),
                               .count = reads(count, 1),
                               .shape = shape_});
  return slots;
}

template Array<std::int32_t> RowCache::locate(const std::uint32_t*, std::size_t,
                                              const std::uint32_t*, StreamRef);
template Array<std::int32_t> RowCache::locate(const std::uint64_t*, std::size_t,
                                              const std::uint32_t*, StreamRef);

void RowCache::empty(ArrayView<const Lookup> lookups, StreamRef stream) {
  if (slots_.size() == 0) return;
  const double all =
      kScalar * static_cast<double>(slots_.size() + slots_first_.size() + slots_second_.size());
  enqueue<host::empty_slots<float>, cuda::empty_slots>(
      context_, stream, {.name = "empty cache", .bytes = all, .host_written = all},
      EmptySlotsArguments<float>{
          .home = home(),
          .cached = {reads(slots_), reads(slots_first_), reads(slots_second_)},
          .slots = {.tags = updates(tags_), .states = states()},
          .lookups = lookups,
          .shape = shape_,
          .layout = tables_.layout});
}

CacheCounts RowCache::counts(StreamRef stream) {
  CacheCounts counts;
  Device& device = context_.device();
  device.copy(&counts, counts_.data(), sizeof(counts), CopyKind::device_to_host, stream.handle());
  device.synchronize(stream.handle());
  return context_.cost_only() ? CacheCounts{} : counts;  // without kernels, nothing was counted
}

std::vector<std::int64_t> RowCache::rows(StreamRef stream) {
  std::vector<std::uint32_t> tags(tags_.size(), kNoTag);
  Device& device = context_.device();
  if (!tags.empty()) {
    device.copy(tags.data(), tags_.data(), tags.size() * sizeof(std::uint32_t),
                CopyKind::device_to_host, stream.handle());
  }
  device.synchronize(stream.handle());
  std::vector<std::int64_t> rows;
  for (std::size_t slot = 0; slot < tags.size(); ++slot) {
    if (tags[slot] == kNoTag) continue;
    rows.push_back(static_cast<std::int64_t>(shape_.row_of(slot / kWays, tags[slot])));
  }
  return rows;
}

}  // namespace model
}  // namespace millrace
