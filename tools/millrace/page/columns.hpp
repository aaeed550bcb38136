#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::cli {

/**
 * @brief The columns of a page: numbers and texts, compressed and encoded as base64.
 *
 * A column of n numbers is stored as differences d[i] = v[i] - v[i-1] with v[-1] = 0. Each
 * difference is the zigzag code of a signed 32-bit or 64-bit number. The lowest bytes of all
 * numbers come first, then the second bytes, and so on. Each column is one zlib stream. Equal and
 * slowly growing values need almost no space, and a browser decodes a million numbers in a few
 * milliseconds.
 */
class Columns {
 public:
  /** @brief Adds a column. @return the entry for the page's header, which locates the column */
  nlohmann::ordered_json add(const std::vector<std::uint32_t>& values);
  /** @param values  they and their differences need at most 53 bits; std::uint64_t(-1) is read as
   *         -1 */
  nlohmann::ordered_json add(const std::vector<std::int64_t>& values);
  nlohmann::ordered_json add_text(std::string_view text);

  /** @brief Writes each column as a hidden HTML element. */
  void write(std::ostream& out) const;

 private:
  nlohmann::ordered_json add_bytes(const char* type, std::size_t count, std::string_view bytes);

  std::vector<std::string> encoded_;
};

}  // namespace millrace::cli
