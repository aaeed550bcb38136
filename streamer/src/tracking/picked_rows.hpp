#pragma once

#include "capture/dirty_rows.hpp"
#include "capture/source_rows.hpp"
#include "millrace/pipeline/model/embedding_bags.hpp"

namespace millrace::capture {

/** @brief Rows that were taken out of a bitmap, and their slots in the caches of cached tables. */
struct PickedRows {
  DirtyRows::Collected rows;
  Array<std::int32_t> slots;

  /** @brief Finds the rows in the caches. @throws out_of_memory, DeviceError */
  void locate(EmbeddingBags& bags, StreamRef stream) {
    slots = bags.locate(rows.rows.data(), rows.most, rows.count.data(), stream);
  }
  /** @param expected  expected number of rows, for the cost of the gather */
  [[nodiscard]] GatheredRows gathered(const SourceRows& source, double expected) const {
    GatheredRows gathered = source.of(rows.list(), expected);
    gathered.slots = slots.data();
    return gathered;
  }
};

}  // namespace millrace::capture
