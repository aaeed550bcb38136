#include "millrace/text/utf8.hpp"

namespace millrace::text {

std::size_t utf8_length(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  // The bounds exclude overlong forms, surrogates, and code points above 0x10ffff.
  unsigned char low = 0x80, high = 0xbf;  // bounds of the second byte
  if (first == 0xe0) low = 0xa0;
  if (first == 0xed) high = 0x9f;
  if (first == 0xf0) low = 0x90;
  if (first == 0xf4) high = 0x8f;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

char* write_utf8(std::uint32_t code_point, char* out) noexcept {
  const auto tail = [&](unsigned shift) {
    *out++ = static_cast<char>(0x80 | ((code_point >> shift) & 0x3f));
  };
  if (code_point < 0x80) {
    *out++ = static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    *out++ = static_cast<char>(0xc0 | (code_point >> 6));
    tail(0);
  } else if (code_point < 0x10000) {
    *out++ = static_cast<char>(0xe0 | (code_point >> 12));
    tail(6);
    tail(0);
  } else {
    *out++ = static_cast<char>(0xf0 | (code_point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
  return out;
}

}  // namespace millrace::text
