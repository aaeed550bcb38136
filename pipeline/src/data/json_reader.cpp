#include "data/json_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <stdexcept>

#include "millrace/pipeline/data/byte_size.hpp"

namespace millrace {

using Json = nlohmann::json;

JsonPlace JsonPlace::at(std::string_view key) const {
  return {origin, path.empty() ? std::string{key} : fmt::format("{}.{}", path, key)};
}

JsonPlace JsonPlace::at(std::size_t index) const {
  return {origin, fmt::format("{}[{}]", path, index)};
}

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= 40 ? text : text.substr(0, 37) + "...";
}

void refuse(const JsonPlace& place, std::string_view found, std::string_view expected) {
  throw std::invalid_argument{fmt::format("{}: {} is {}, but must be {}", place.origin,
                                          place.path.empty() ? "the document" : place.path, found,
                                          expected)};
}

Json parse_json(std::string_view text, std::string_view origin) {
  std::vector<std::set<std::string>> open;
  const auto refuse_twice = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second) {
      throw std::invalid_argument{
          fmt::format("{}: {} is there twice", origin, value.get<std::string>())};
    }
    return true;
  };
  try {
    return Json::parse(text, refuse_twice);
  } catch (const Json::parse_error& error) {
    const std::string_view before = text.substr(0, std::min<std::size_t>(error.byte, text.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    throw std::invalid_argument{fmt::format("{}:{}: this is not JSON", origin, line)};
  } catch (const Json::out_of_range&) {  // what a number does that no double holds
    throw std::invalid_argument{
        fmt::format("{}: a number is greater than any that a double can hold", origin)};
  }
}

std::string read_text(const std::filesystem::path& file) {
  std::ifstream stream{file, std::ios::binary};
  std::string text;
  const bool readable = stream.is_open() && !std::filesystem::is_directory(file);
  if (readable) text.assign(std::istreambuf_iterator<char>{stream}, {});
  if (!readable || stream.bad()) {
    throw std::invalid_argument{fmt::format("{}: can not be read", file.string())};
  }
  return text;
}

JsonObject::JsonObject(const Json& object, JsonPlace place)
    : object_(object), place_(std::move(place)) {
  if (!object.is_object()) refuse(place_, shown(object), "an object { ... }");
}

const Json* JsonObject::find(std::string_view key, bool required) {
  known_.emplace_back(key);
  const auto found = object_.find(key);
  if (found != object_.end()) return &*found;
  if (required) {
    throw std::invalid_argument{
        fmt::format("{}: {} is missing", place_.origin, place_.at(key).path)};
  }
  return nullptr;
}

void JsonObject::integer(std::string_view key, std::size_t& value, std::size_t least,
                         std::size_t most, bool required) {
  const Json* const found = find(key, required);
  if (found == nullptr) return;
  const std::string expected = fmt::format("a whole number from {} to {}", least, most);
  if (!found->is_number_unsigned()) refuse(place_.at(key), shown(*found), expected);
  const auto number = found->get<std::uint64_t>();
  if (number < least || number > most) refuse(place_.at(key), shown(*found), expected);
  value = number;
}

void JsonObject::number(std::string_view key, double& value, double least, double most,
                        bool required) {
  const Json* const found = find(key, required);
  if (found == nullptr) return;
  const std::string expected = fmt::format("a number from {} to {}", least, most);
  if (!found->is_number()) refuse(place_.at(key), shown(*found), expected);
  const double number = found->get<double>();
  if (!(number >= least && number <= most)) refuse(place_.at(key), shown(*found), expected);
  value = number;
}

void JsonObject::bytes(std::string_view key, std::size_t& value, bool required) {
  const Json* const found = find(key, required);
  if (found == nullptr) return;
  constexpr std::string_view expected = "a size: bytes, or a text like \"4GiB\"; up to 1 TiB";
  std::size_t size = std::numeric_limits<std::size_t>::max();
  if (found->is_number_unsigned()) size = found->get<std::uint64_t>();
  if (found->is_string()) {
    try {
      size = parse_bytes(found->get_ref<const std::string&>());
    } catch (const std::invalid_argument&) {
      refuse(place_.at(key), shown(*found), expected);
    }
  }
  if (size > std::size_t{1} << 40) refuse(place_.at(key), shown(*found), expected);
  value = size;
}

void JsonObject::text(std::string_view key, std::string& value, bool required) {
  const Json* const found = find(key, required);
  if (found == nullptr) return;
  if (!found->is_string()) refuse(place_.at(key), shown(*found), "a text");
  value = found->get<std::string>();
}

void JsonObject::finish(std::string_view of) const {
  for (const auto& [key, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    throw std::invalid_argument{fmt::format("{}: {} is not a key of {}; there are {}",
                                            place_.origin, place_.at(key).path, of,
                                            fmt::join(known_, ", "))};
  }
}

}  // namespace millrace
