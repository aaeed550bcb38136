#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "millrace/device/ordered_device.hpp"
#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"

namespace millrace {

/** @brief A table in device memory; of cached tables, in pinned host memory. */
struct TableView {
  std::string name;
  std::size_t rows = 0, width = 0;
  std::int64_t first_row = 0;  ///< rows of all tables of one EmbeddingBags are counted through
  float* weights = nullptr;    ///< [rows x width]
  float* m = nullptr;          ///< [rows] (row-wise Adagrad) or [rows x width]; null: none
  float* v = nullptr;          ///< [rows x width]; null: none
};

/**
 * @brief Which rows a fused update changed, in device memory: each once, ascending.
 *
 * `rows` are numbered through the tables: those of table t are first_row to first_row + rows.
 * Everything here may be read by work that is enqueued on `stream` during the call.
 *
 * A row of a cached table whose slot is not below 0 is at its slot, and older in the table: its
 * weights are those from `cached + slot * slot_width` on.
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
  const float* cached = nullptr;        ///< [slots x slot_width]
  std::size_t slot_width = 0;           ///< the widest row's
};

/** @brief Told of what changes the rows of an EmbeddingBags, by the thread that enqueues it. */
class RowUpdateObserver {
 public:
  virtual ~RowUpdateObserver() = default;
  /** @brief A fused update was enqueued just now. */
  virtual void rows_updated(const RowUpdate& update) = 0;
  /**
   * @brief What changes rows or moves them between cache and host memory is enqueued on `stream`
   *        next: an update, a prefetch, bringing all rows home.
   *
   * Work of the observer's own on another stream that reads rows has to be waited for.
   */
  virtual void rows_will_move(StreamRef /*stream*/) {}
};

}  // namespace millrace
