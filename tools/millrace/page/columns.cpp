#include "page/columns.hpp"

#include <zlib.h>

#include <ostream>
#include <stdexcept>

namespace millrace::cli {
namespace {

// Fast compression: the planes are mostly runs of equal bytes, where higher levels gain little.
constexpr int kLevel = 4;

std::string compressed(std::string_view bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  const int result = compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                               reinterpret_cast<const Bytef*>(bytes.data()),
                               static_cast<uLong>(bytes.size()), kLevel);
  if (result != Z_OK) throw std::runtime_error{"the data of a page could not be compressed"};
  out.resize(size);
  return out;
}

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t k) -> std::uint32_t {
      return i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0;
    };
    const std::uint32_t group = byte(0) << 16 | byte(1) << 8 | byte(2);
    out += kDigits[group >> 18];
    out += kDigits[group >> 12 & 63];
    out += i + 1 < bytes.size() ? kDigits[group >> 6 & 63] : '=';
    out += i + 2 < bytes.size() ? kDigits[group & 63] : '=';
  }
  return out;
}

// The bytes of the zigzag codes of the differences: one plane per byte position.
template <typename Unsigned, typename Value>
std::string planes(const std::vector<Value>& values) {
  constexpr unsigned kBits = sizeof(Unsigned) * 8;
  std::string bytes(values.size() * sizeof(Unsigned), '\0');
  Unsigned last = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<Unsigned>(values[i]);
    const auto difference = static_cast<Unsigned>(value - last);
    const Unsigned sign = difference >> (kBits - 1) ? ~Unsigned{0} : Unsigned{0};
    const auto code = static_cast<Unsigned>(static_cast<Unsigned>(difference << 1) ^ sign);
    for (std::size_t plane = 0; plane < sizeof(Unsigned); ++plane) {
      bytes[plane * values.size() + i] = static_cast<char>(code >> (8 * plane) & 0xff);
    }
    last = value;
  }
  return bytes;
}

}  // namespace

nlohmann::ordered_json Columns::add_bytes(const char* type, std::size_t count,
                                          std::string_view bytes) {
  encoded_.push_back(base64(compressed(bytes)));
  return {{"column", encoded_.size() - 1}, {"type", type}, {"count", count}};
}

nlohmann::ordered_json Columns::add(const std::vector<std::uint32_t>& values) {
  return add_bytes("u32", values.size(), planes<std::uint32_t>(values));
}

nlohmann::ordered_json Columns::add(const std::vector<std::int64_t>& values) {
  return add_bytes("i64", values.size(), planes<std::uint64_t>(values));
}

nlohmann::ordered_json Columns::add_text(std::string_view text) {
  return add_bytes("text", text.size(), text);
}

void Columns::write(std::ostream& out) const {
  for (std::size_t i = 0; i < encoded_.size(); ++i) {
    out << "<script type=\"text/plain\" id=\"column-" << i << "\">" << encoded_[i] << "</script>\n";
  }
}

}  // namespace millrace::cli
