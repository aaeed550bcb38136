#pragma once

#include <zlib.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "test/support/catch.hpp"

/// @file
/// Reads the data of a page of `--html` as a browser does.

namespace millrace::test {

inline std::string text_between(const std::string& text, const std::string& begin,
                                const std::string& end) {
  const std::size_t from = text.find(begin);
  REQUIRE(from != std::string::npos);
  const std::size_t to = text.find(end, from + begin.size());
  REQUIRE(to != std::string::npos);
  return text.substr(from + begin.size(), to - from - begin.size());
}

/// The JSON header of a page, which has everything except the columns.
inline nlohmann::json page_header(const std::string& page) {
  return nlohmann::json::parse(
      text_between(page, "<script type=\"application/json\" id=\"header\">", "</script>"));
}

inline std::string from_base64(const std::string& text) {
  static const std::string digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char digit : text) {
    if (digit == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(digits.find(digit));
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>(bits >> held & 0xff);
  }
  return bytes;
}

/// The decompressed bytes of a column.
inline std::string column_bytes(const std::string& page, const nlohmann::json& column,
                                std::size_t size) {
  const std::string packed = from_base64(text_between(
      page, "id=\"column-" + std::to_string(column.at("column").get<int>()) + "\">", "</script>"));
  std::string bytes(size, '\0');
  uLongf got = size;
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(bytes.data()), &got,
                     reinterpret_cast<const Bytef*>(packed.data()), packed.size()) == Z_OK);
  REQUIRE(got == size);
  return bytes;
}

/// The numbers of a column, decoded as page/columns.hpp describes.
inline std::vector<std::int64_t> column_numbers(const std::string& page,
                                                const nlohmann::json& column) {
  const std::size_t count = column.at("count"), planes = column.at("type") == "u32" ? 4 : 8;
  const std::string bytes = column_bytes(page, column, count * planes);
  std::vector<std::int64_t> values;
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t code = 0;
    for (std::size_t plane = 0; plane < planes; ++plane) {
      code |= std::uint64_t{static_cast<unsigned char>(bytes[plane * count + i])} << (8 * plane);
    }
    last += (code >> 1) ^ (~(code & 1) + 1);
    if (planes == 4) last &= UINT32_MAX;
    values.push_back(static_cast<std::int64_t>(last));
  }
  return values;
}

}  // namespace millrace::test
