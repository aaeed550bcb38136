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

/** @brief A table in device memory; of cached tables, in pinned host memory. */
struct TableView {
  std::string name;
  std::size_t rows = 0, width = 0;
  std::int64_t first_row = 0;  ///< rows of all tables of one EmbeddingBags are counted through
  float* weights = nullptr;    ///< [rows x width]
  float* m = nullptr;          ///< [rows x m_width]; null: none
  float* v = nullptr;          ///< [rows x v_width]; null: none
  std::size_t m_width = 0;     ///< 1 (row-wise Adagrad), or width
  std::size_t v_width = 0;
  std::size_t whole_rows = 0;     ///< of the whole table that this is, or is a shard of
  std::int64_t row_of_whole = 0;  ///< that is the first one here
};

/** @brief The cache of cached tables, in device memory. A slot has all that a row has. */
struct SlotView {
  const float* weights = nullptr;  ///< [slots x width]
  const float* m = nullptr;        ///< [slots], or [slots x width]; null: none
  const float* v = nullptr;        ///< [slots x width]; null: none
  std::size_t slots = 0;
  std::size_t width = 0;  ///< the widest row's
};

/**
 * @brief Which rows a fused update changed, in device memory: each once, ascending.
 *
 * `rows` are numbered through the tables: those of table t are first_row to first_row + rows.
 * Everything here may be read by work that is enqueued on `stream` during the call; by another
 * stream that waits for it, after `record_use`. An update of a batch without ids is told as well:
 * `most` is 0 then, and there are no arrays.
 *
 * A row of a cached table whose slot is not below 0 is at its slot, and older in the table: its
 * weights are those from `cache.weights + slot * cache.width` on.
 */
struct RowUpdate {
  const void* rows = nullptr;  ///< [*count], of `row_type`
  IndexType row_type = IndexType::int32;
  const std::uint32_t* count = nullptr;
  std::size_t most = 0;    ///< what *count is at most, as far as the host knows
  std::uint64_t step = 0;  ///< of the tables' optimizer, from 1
  StreamRef stream;
  std::span<const TableView> tables;
  const std::int32_t* slots = nullptr;  ///< [*count], of cached tables
  SlotView cache{};
  std::span<const double> expected{};  ///< rows of each table, were ids uniform: what costs say
  double at_home = 0;                  ///< the share of cached rows that is not at slots, likewise
  std::array<Buffer*, 3> memory{};     ///< of the arrays

  /** @brief `stream`, which waits for `this->stream`, reads the arrays as well. */
  void record_use(StreamRef other) const {
    for (Buffer* buffer : memory) {
      if (buffer != nullptr) buffer->record_use(other);
    }
  }
};

/** @brief Told of what changes the rows of an EmbeddingBags, by the thread that enqueues it. */
class RowUpdateObserver {
 public:
  virtual ~RowUpdateObserver() = default;
  /** @brief A fused update was enqueued just now. */
  virtual void rows_updated(const RowUpdate& update) = 0;
  /**
   * @brief What changes rows or moves them between cache and host memory is enqueued on `stream`
   *        next: an update, a prefetch, bringing all rows home, what `add_state` is for.
   *
   * Work of the observer's own on another stream that reads rows has to be waited for.
   */
  virtual void rows_will_move(StreamRef /*stream*/) {}
};

}  // namespace millrace
