#include "millrace/text/json_object.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "millrace/memory/byte_size.hpp"
#include "millrace/text/nearest.hpp"
#include "millrace/text/utf8.hpp"

namespace millrace::text {

using Json = nlohmann::json;

namespace {

/** Shortens a text for messages, without splitting a character. */
std::string shortened(const std::string& text) {
  constexpr std::size_t most = 40;
  if (text.size() <= most) return text;
  std::size_t end = 0;
  while (true) {
    const std::size_t next =
        end + std::max<std::size_t>(1, utf8_length(std::string_view{text}.substr(end)));
    if (next > most - 3) return text.substr(0, end) + "...";
    end = next;
  }
}

std::string quoted(const JsonPlace& place) {
  return place.path.empty() ? "the document" : fmt::format("'{}'", place.path);
}

}  // namespace

JsonPlace JsonPlace::at(std::string_view key) const {
  return {origin, path.empty() ? std::string{key} : fmt::format("{}.{}", path, key)};
}

JsonPlace JsonPlace::at(std::size_t index) const {
  return {origin, fmt::format("{}[{}]", path, index)};
}

std::string shown(const Json& value) {
  return shortened(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void refuse(const JsonPlace& place, std::string_view found, std::string_view expected) {
  throw std::invalid_argument{
      fmt::format("{}: {} is {}, but must be {}", place.origin, quoted(place), found, expected)};
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
        fmt::format("{}: {} is missing", place_.origin, quoted(place_.at(key)))};
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
    const std::string meant = nearest(key, known_);
    throw std::invalid_argument{
        fmt::format("{}: {} is not a key of {}{}", place_.origin, quoted(place_.at(shortened(key))),
                    of, meant.empty() ? "" : fmt::format(" (did you mean {}?)", meant))};
  }
}

}  // namespace millrace::text
