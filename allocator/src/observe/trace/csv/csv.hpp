#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::trace {

/** @brief Comma-separated lines with a header, read one by one. Blank lines are passed over. */
class Csv {
 public:
  Csv(std::string_view text, const std::string& source);

  /** @brief The names of the columns, from the first line. */
  [[nodiscard]] const std::vector<std::string_view>& header() const noexcept { return header_; }
  /** @brief Where a column is. @throws ParseError if it is missing or there twice */
  [[nodiscard]] std::size_t column(std::string_view name) const;

  /** @brief Goes to the next line. @throws ParseError if it has too few or too many columns */
  [[nodiscard]] bool next();
  /** @brief Of the current line, counted from 1. */
  [[nodiscard]] std::uint64_t line() const noexcept { return line_; }
  [[nodiscard]] std::string_view operator[](std::size_t column) const { return fields_[column]; }

  /// @name A field of the current line as a number; ParseError if it is none or does not fit
  /// @{
  [[nodiscard]] std::uint64_t natural(std::size_t column) const;
  [[nodiscard]] std::int64_t integer(std::size_t column) const;
  [[nodiscard]] std::uint64_t hexadecimal(std::size_t column) const;  ///< 0x or not; (nil) is 0
  /// @}

  /** @brief Says of the current line what is wrong with it. */
  [[noreturn]] void fail(const std::string& problem) const;

 private:
  bool read_line(std::string_view& line);
  void split(std::string_view line, std::vector<std::string_view>& fields) const;

  std::string_view rest_;
  const std::string& source_;
  std::vector<std::string_view> header_;
  std::vector<std::string_view> fields_;
  std::uint64_t line_ = 0;
};

}  // namespace millrace::trace
