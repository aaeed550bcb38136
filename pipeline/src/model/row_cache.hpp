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
#include "model/expected_rows.hpp"
#include "model/pinned_array.hpp"
#include "model/row_places.hpp"

namespace millrace::model {

/** @brief Sizes of tables that are cached: in scalars, all tables together. */
struct CachedTables {
  std::size_t rows = 0;
  std::size_t weights = 0, m = 0, v = 0;
  RowLayout layout;
};

/**
 * @brief Rows of tables in pinned host memory, and the cache of them on the device.
 *
 * Prefetches, and all that reads or changes rows, follow each other on the device: the caller's
 * waits. Where a row is, at its slot or at home, is looked up by each operation as things are then;
 * so a row may come or go at any time between two operations, and holding rows back is a matter of
 * speed.
 */
class RowCache {
 public:
  /** @throws std::invalid_argument for a load factor that is no share; out_of_memory, DeviceError
   */
  RowCache(ModelContext& context, const TableCache& options, const CachedTables& tables);

  [[nodiscard]] float* weights() const noexcept { return weights_.data(); }
  [[nodiscard]] float* m() const noexcept { return m_.data(); }
  [[nodiscard]] float* v() const noexcept { return v_.data(); }

  /** @param lookups  of all features, on the device */
  [[nodiscard]] HeldRows prefetch(const BatchBags& bags, const Lookup* lookups,
                                  const ExpectedRows& expected, StreamRef stream);
  /** @brief Of each id its slot, of `stream`. */
  [[nodiscard]] Array<std::int32_t> locate(const BatchBags& bags, const Lookup* lookups,
                                           StreamRef stream);
  /** @brief Of each of these rows, at most so many, its slot. */
  template <typename Key>
  [[nodiscard]] Array<std::int32_t> locate(const Key* rows, std::size_t most,
                                           const std::uint32_t* count, StreamRef stream);
  /** @brief Writes back what has changed; every slot is empty then. */
  void empty(const Lookup* lookups, std::size_t features, StreamRef stream);

  [[nodiscard]] std::size_t slot_count() const noexcept { return shape_.sets * kWays; }
  [[nodiscard]] SlotView view() const noexcept {
    return {slots_.data(), slots_m_.data(), slots_v_.data(), slot_count(), tables_.layout.width};
  }

  /** @brief Both wait for `stream`. */
  [[nodiscard]] CacheCounts counts(StreamRef stream);
  [[nodiscard]] std::vector<std::int64_t> rows(StreamRef stream);

 private:
  friend struct SlotViews;

  template <typename Id, typename Offset, typename Key>
  void bring(const BatchBags& bags, const Lookup* lookups, const ExpectedRows& expected,
             const Turn& turn, StreamRef stream);

  ModelContext& context_;
  const TableCache options_;
  const CachedTables tables_;
  const CacheShape shape_;
  PinnedArray weights_, m_, v_;  ///< at home
  Array<float> slots_, slots_m_, slots_v_;
  Array<std::uint32_t> tags_;
  Array<SlotState> states_;
  Array<CacheCounts> counts_;
  std::uint64_t prefetches_ = 0;
  const std::shared_ptr<std::set<std::uint64_t>> held_;
};

/** @brief What operations on rows are given of a cache; nothing, where there is none. */
struct SlotViews {
  explicit SlotViews(const RowCache* cache) {
    if (cache == nullptr) return;
    weights = updates(cache->slots_);
    m = updates(cache->slots_m_);
    v = updates(cache->slots_v_);
    states = updates(cache->states_);
    width = cache->tables_.layout.width;
  }

  Argument<float, Access::read_write> weights, m, v;
  Argument<SlotState, Access::read_write> states;
  std::size_t width = 0;
};

}  // namespace millrace::model
