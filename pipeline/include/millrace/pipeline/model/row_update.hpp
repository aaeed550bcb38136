#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "millrace/device/ordered_device.hpp"
#include "millrace/memory/buffer.hpp"
#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"

namespace millrace {

/** @brief A table in device memory, or, if it is cached, in pinned host memory. */
struct TableView {
  std::string name;
  std::size_t rows = 0, width = 0;
  std::int64_t first_row = 0;          ///< number of its first row, counted across an EmbeddingBags
  float* weights = nullptr;            ///< [rows x width]
  float* first_moment = nullptr;       ///< [rows x first_moment_width]; null: none
  float* second_moment = nullptr;      ///< [rows x second_moment_width]; null: none
  std::size_t first_moment_width = 0;  ///< 1 (an optimizer with state of rows), or width; 0: none
  std::size_t second_moment_width = 0;  ///< width; 0: none
  std::size_t whole_rows = 0;           ///< rows of the whole table, even if this is a shard
  std::int64_t row_of_whole = 0;        ///< number of its first row in the whole table
};

/** @brief The cache of cached tables, in device memory. A slot has weights and state of one row. */
struct SlotView {
  const float* weights = nullptr;        ///< [slots x width]
  const float* first_moment = nullptr;   ///< [slots], or [slots x width]; null: none
  const float* second_moment = nullptr;  ///< [slots x width]; null: none
  std::size_t slots = 0;
  std::size_t width = 0;  ///< width of the widest table
};

/**
 * @brief The rows that a fused update changed, in device memory: each once, in ascending order.
 *
 * Row numbers count across the tables: the rows of table t begin at its `first_row`. Work that the
 * observer enqueues on `stream` during the call may read the arrays. Another stream may read them,
 * too, if it waits for `stream` and `record_use` was called for it. Observers are also called for
 * an update of a batch without ids: `most` is then 0, and `rows` and `count` are null.
 *
 * If a row of a cached table has a slot that is not negative, its current weights are in the cache,
 * at `cache.weights + slot * cache.width`. The table in host memory has older weights.
 */
struct RowUpdate {
  const void* rows = nullptr;  ///< [*count], of `row_type`
  IndexType row_type = IndexType::int32;
  const std::uint32_t* count = nullptr;
  std::size_t most = 0;    ///< the host's upper bound of *count
  std::uint64_t step = 0;  ///< the optimizer's step, from 1
  StreamRef stream;
  std::span<const TableView> tables;
  const std::int32_t* slots = nullptr;  ///< [*count]; nullptr if tables are not cached
  SlotView cache{};
  std::span<const double> expected{};  ///< rows of each table if ids are uniform, for cost models
  double at_home = 0;                  ///< the share of `expected` that is not in the cache
  std::array<Buffer*, 3> memory{};     ///< the buffers of the arrays

  /** @brief Records that `other`, which waits for `stream`, also reads the arrays. */
  void record_use(StreamRef other) const {
    for (Buffer* buffer : memory) {
      if (buffer != nullptr) buffer->record_use(other);
    }
  }
};

/** @brief Is called for every change to the rows of an EmbeddingBags, on the thread that enqueues
 *         the change. */
class RowUpdateObserver {
 public:
  virtual ~RowUpdateObserver() = default;
  /** @brief Called right after a fused update was enqueued. */
  virtual void rows_updated(const RowUpdate& update) = 0;
  /**
   * @brief Called before an operation is enqueued on `stream` that changes rows, or moves them
   *        between cache and host memory: an update, a prefetch, or the copies of `add_state`.
   *
   * If the observer reads rows on another stream, it must make `stream` wait for that here.
   */
  virtual void rows_will_move(StreamRef /*stream*/) {}
};

}  // namespace millrace
