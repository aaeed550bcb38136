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
 * @brief The columns of a page: numbers and texts, compressed, as base64.
 *
 * A column of n numbers is a list of differences d[i] = v[i] - v[i-1], v[-1] = 0, each as the
 * zigzag code of a signed 32- or 64-bit number: first the lowest byte of all of them, then the next
 * byte of all, and so on. All of it is one zlib stream. Equal and slowly growing values then take
 * almost no space, and a browser decodes a million numbers within some milliseconds.
 */
class Columns {
 public:
  /** @brief Adds a column. @return what the header has to say, in order to find and read it */
  nlohmann::ordered_json add(const std::vector<std::uint32_t>& values);
  /** @param values  at most 53 bits, and differences too; std::uint64_t(-1) is read as -1 */
  nlohmann::ordered_json add(const std::vector<std::int64_t>& values);
  nlohmann::ordered_json add_text(std::string_view text);

  /** @brief Writes each column as an element that a browser does not show. */
  void write(std::ostream& out) const;

 private:
  nlohmann::ordered_json add_bytes(const char* type, std::size_t count, std::string_view bytes);

  std::vector<std::string> encoded_;
};

}  // namespace millrace::cli
