#pragma once

#include <cstdint>

#include "millrace/observe/trace/value_tree.hpp"
#include "observe/trace/memory_budget.hpp"
#include "observe/trace/value/field.hpp"

namespace millrace::trace {

/**
 * @brief How many records a reader may make of a tree, and how much memory they may take. A pickle
 * may share one record many times over; an honest one has a few bytes for every record.
 */
class RecordBudget {
 public:
  explicit RecordBudget(const ValueTree& tree)
      : records_left_{tree.record_bound()}, memory_left_{tree.memory_left()} {}

  [[nodiscard]] std::size_t records_left() const noexcept { return records_left_; }

  /** @brief Counts one record. @throws ParseError about `field` */
  void count_record(const Field& field) {
    if (records_left_ == 0)
      field.fail("the file repeats its records more often than an honest file does");
    --records_left_;
    count_memory(field, kBytesOfRecord);
  }

  /** @brief Counts memory. @throws ParseError about `field` */
  void count_memory(const Field& field, std::uint64_t bytes) {
    if (memory_left_ < bytes) field.fail(MemoryBudget::problem());
    memory_left_ -= bytes;
  }

 private:
  // What a record takes at most, in a snapshot and in the AllocationLog that is made of it.
  static constexpr std::uint64_t kBytesOfRecord = 512;

  std::size_t records_left_;
  std::uint64_t memory_left_;
};

}  // namespace millrace::trace
