#include "test/support/pickle_writer.hpp"

#include <bit>
#include <cstdint>
#include <stdexcept>

namespace millrace::test {

namespace {

using nlohmann::json;

std::string little(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

std::string integer(std::int64_t value) {
  if (value >= 0 && value < 256) return "K" + little(static_cast<std::uint64_t>(value), 1);
  if (value >= INT32_MIN && value <= INT32_MAX)
    return "J" + little(static_cast<std::uint64_t>(value), 4);
  return std::string{"\x8a\x08"} + little(static_cast<std::uint64_t>(value), 8);
}

std::string real(double value) {
  return "G" + little(__builtin_bswap64(std::bit_cast<std::uint64_t>(value)), 8);
}

std::string text(const std::string& value) { return "X" + little(value.size(), 4) + value; }

}  // namespace

std::string to_pickle_body(const json& data) {
  std::string out;
  switch (data.type()) {
    case json::value_t::null:
      return "N";
    case json::value_t::boolean:
      return data.get<bool>() ? "\x88" : "\x89";
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
      return integer(data.get<std::int64_t>());
    case json::value_t::number_float:
      return real(data.get<double>());
    case json::value_t::string:
      return text(data.get<std::string>());
    case json::value_t::array:
      for (const json& item : data) out += to_pickle_body(item);
      return "](" + out + "e";
    case json::value_t::object:
      for (const auto& [key, value] : data.items()) out += text(key) + to_pickle_body(value);
      return "}(" + out + "u";
    default:
      throw std::invalid_argument{"cannot be pickled"};
  }
}

std::string to_pickle(const json& data) { return "\x80\x02" + to_pickle_body(data) + "."; }

}  // namespace millrace::test
