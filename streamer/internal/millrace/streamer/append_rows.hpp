#pragma once

#include "millrace/streamer/captured_rows.hpp"
#include "millrace/streamer/step_batch.hpp"

namespace millrace {

/**
 * @brief Encodes captured rows at the end of a batch.
 *
 * An empty batch gets its whole memory first: growing by doubling costs three times as much as the
 * encoding, most of it page faults.
 * @param epoch  of the rows' version
 */
inline void append_rows(StepBatch& batch, const CapturedRows& rows, std::uint64_t epoch) {
  if (batch.empty()) {
    std::size_t bytes = 0;
    for (const CapturedRows::TableRows& part : rows.tables) {
      const std::size_t floats = (part.weights == nullptr ? 0 : part.width) +
                                 (part.optimizer_state == nullptr ? 0 : part.state);
      bytes += part.rows * record_bytes(floats);
    }
    batch.reserve(rows.size(), bytes);
  }
  rows.visit(epoch, [&](const RowRecord& row) { batch.add(row); });
}

}  // namespace millrace
