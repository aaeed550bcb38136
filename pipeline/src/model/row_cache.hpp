#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "millrace/memory/buffer.hpp"
#include "millrace/pipeline/model/model_context.hpp"
#include "millrace/pipeline/model/row_update.hpp"
#include "millrace/pipeline/model/table_cache.hpp"
#include "model/batch_bags.hpp"
#include "model/cache_arguments.hpp"
#include "model/expected_rows.hpp"
#include "model/pinned_array.hpp"
#include "model/row_places.hpp"

namespace millrace::model {

/** @brief Sizes of cached tables: scalars of all tables together. */
struct CachedTables {
  std::size_t rows = 0;
  std::size_t weights = 0, first_moment = 0, second_moment = 0;
  RowLayout layout;
};

/**
 * @brief Rows of tables in pinned host memory, and their cache on the device.
 *
 * The caller orders prefetches, and all operations that read or change rows, one after another on
 * the device. Each operation looks up the current place of a row: at its slot, or at home. A row
 * may therefore come or go between any two operations; holding rows in the cache affects only
 * speed.
 */
class RowCache {
 public:
  /** @throws std::invalid_argument for a load factor that is no share; out_of_memory, DeviceError
   */
  RowCache(ModelContext& context, const TableCache& options, const CachedTables& tables);

  [[nodiscard]] float* weights() const noexcept { return weights_.data(); }
  [[nodiscard]] float* first_moment() const noexcept { return first_moment_.data(); }
  [[nodiscard]] float* second_moment() const noexcept { return second_moment_.data(); }

  /** @brief Returns the rows at slots, for an operation that reads or changes rows. */
  [[nodiscard]] RowStorage<float> cached() const {
    return {updates(slots_), updates(slots_first_), updates(slots_second_)};
  }
  [[nodiscard]] ArrayView<SlotState> states() const { return updates(states_); }
  [[nodiscard]] std::size_t slot_width() const noexcept { return tables_.layout.width; }

  [[nodiscard]] HeldRows prefetch(const BatchBags& bags, const ExpectedRows& expected,
                                  StreamRef stream);
  /** @brief Returns the slot of each id. The memory is ordered on `stream`. */
  [[nodiscard]] Array<std::int32_t> locate(const BatchBags& bags, StreamRef stream);
  /** @brief Returns the slot of each of these rows, at most `most`. */
  template <typename Key>
  [[nodiscard]] Array<std::int32_t> locate(const Key* rows, std::size_t most,
                                           const std::uint32_t* count, StreamRef stream);
  /** @brief Writes back changed rows, and empties every slot. */
  void empty(ArrayView<const Lookup> lookups, StreamRef stream);

  [[nodiscard]] std::size_t slot_count() const noexcept { return shape_.sets * kWays; }
  [[nodiscard]] SlotView view() const noexcept {
    return {slots_.data(), slots_first_.data(), slots_second_.data(), slot_count(), slot_width()};
  }

  /** @brief Makes the host wait for `stream`, like `rows`. */
  [[nodiscard]] CacheCounts counts(StreamRef stream);
  [[nodiscard]] std::vector<std::int64_t> rows(StreamRef stream);

 private:
  template <typename Id, typename Offset, typename Key>
  void bring(const BatchBags& bags, const ExpectedRows& expected, const Turn& turn,
             StreamRef stream);
  [[nodiscard]] RowStorage<float> home() const {
    return {updates(weights_.data(), weights_.size()),
            updates(first_moment_.data(), first_moment_.size()),
            updates(second_moment_.data(), second_moment_.size())};
  }

  ModelContext& context_;
  const TableCache options_;
  const CachedTables tables_;
  const CacheShape shape_;
  PinnedArray weights_, first_moment_, second_moment_;  ///< the tables at home
  Array<float> slots_, slots_first_, slots_second_;
  Array<std::uint32_t> tags_;
  Array<SlotState> states_;
  Array<CacheCounts> counts_;
  std::uint64_t prefetches_ = 0;
  const std::shared_ptr<std::set<std::uint64_t>> held_;
};

}  // namespace millrace::model
