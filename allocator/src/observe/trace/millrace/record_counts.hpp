#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "observe/trace/millrace/records.hpp"

namespace millrace::trace {

/** @brief The number of records of each kind, which says how much memory their log will need. */
class RecordCounts {
 public:
  /** @brief Counts the whole records of a file. */
  explicit RecordCounts(std::string_view bytes);

  [[nodiscard]] std::size_t operator[](RecordKind kind) const {
    return counts_[static_cast<unsigned char>(kind)];
  }
  /** @brief Upper bound on the events of the log. */
  [[nodiscard]] std::size_t events() const;
  /** @brief Upper bound on the steps of order of the log. */
  [[nodiscard]] std::size_t order() const;
  /** @brief Estimate of the log's memory in bytes. */
  [[nodiscard]] std::uint64_t memory() const;

 private:
  std::array<std::size_t, 256> counts_{};
};

}  // namespace millrace::trace
