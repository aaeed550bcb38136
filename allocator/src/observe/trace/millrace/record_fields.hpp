#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "observe/trace/millrace/record_cursor.hpp"

namespace millrace::trace {

inline constexpr std::uint64_t kAnyNumber = std::numeric_limits<std::uint64_t>::max();

/** @brief Takes the fields of a record in their order, and refuses what cannot be one. */
class RecordFields {
 public:
  /** @param source  the file's name, for error messages; it outlives this object */
  explicit RecordFields(const std::string& source) : source_{source} {}

  void begin(const RawRecord& record) {
    record_ = record;
    rest_ = record.payload;
  }
  [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }

  /** @throws ParseError if the record ends here, or the number is greater than `most` */
  std::uint64_t number(std::uint64_t most, const char* what);
  /** @throws ParseError if the record ends before the text does */
  std::string text();

  /** @brief An item of a table, by its number from 0. @throws ParseError */
  template <typename Table>
  typename Table::value_type at(const Table& table, const char* what) {
    const std::uint64_t index = number(kAnyNumber, what);
    if (index >= table.size()) fail_name(what, index, table.size());
    return table[index];
  }
  /** @brief The same by its number from 1; 0 is none. */
  template <typename Table>
  typename Table::value_type one_based(const Table& table, const char* what) {
    const std::uint64_t index = number(kAnyNumber, what);
    if (index == 0) return {};
    if (index > table.size()) fail_name(what, index, table.size());
    return table[index - 1];
  }

  /** @brief The place of the record in the file. */
  [[nodiscard]] std::string where() const { return fmt::format("byte {}", record_.begin); }
  /** @throws ParseError that names the file, the record and its problem */
  [[noreturn]] void fail(const std::string& problem) const;

 private:
  [[noreturn]] void fail_name(const char* what, std::uint64_t index, std::size_t count) const;

  const std::string& source_;
  RawRecord record_;
  std::string_view rest_;  // of its payload
};

}  // namespace millrace::trace
