#include "model/checkpoint_header.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "millrace/text/json_document.hpp"

namespace millrace::model {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kOrigin = "the header";

const Json& value_of(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end()) throw std::invalid_argument{fmt::format("'{}' is missing", key)};
  return *found;
}

std::string text_of(const Json& object, const char* key) {
  const Json& value = value_of(object, key);
  if (!value.is_string()) throw std::invalid_argument{fmt::format("'{}' is not a text", key)};
  return value.get<std::string>();
}

std::uint64_t natural_of(const Json& object, const char* key) {
  const Json& value = value_of(object, key);
  if (!value.is_number_unsigned()) {
    throw std::invalid_argument{fmt::format("'{}' is not a whole number from 0", key)};
  }
  return value.get<std::uint64_t>();
}

std::vector<Named> named(const Json& object, const char* key, const char* number) {
  const Json& list = value_of(object, key);
  if (!list.is_array()) throw std::invalid_argument{fmt::format("'{}' is not a list", key)};
  std::vector<Named> all;
  for (const Json& item : list) all.push_back({text_of(item, "name"), natural_of(item, number)});
  return all;
}

void check_payload_size(const std::vector<Named>& tensors, std::uint64_t payload) {
  constexpr std::uint64_t checksum = sizeof(std::uint64_t);
  for (const Named& tensor : tensors) {
    if (payload < checksum || tensor.number > (payload - checksum) / sizeof(float)) {
      throw std::invalid_argument{fmt::format(
          "'{}' has {} numbers, more than the file has room for", tensor.name, tensor.number)};
    }
    payload -= checksum + tensor.number * sizeof(float);
  }
  if (payload != 0) {
    throw std::invalid_argument{fmt::format("{} bytes at the end belong to no tensor", payload)};
  }
}

}  // namespace

ParsedHeader parse_checkpoint_header(std::string_view json, std::uint64_t payload) {
  const Json document = text::parse_document(json, kOrigin, kMostHeader);
  const Json& position = value_of(document, "position");
  ParsedHeader parsed{
      .header = {.model = text_of(document, "model"),
                 .data = text_of(document, "data"),
                 .seed = natural_of(document, "seed"),
                 .steps = natural_of(document, "steps"),
                 .batch_size = natural_of(document, "batch_size"),
                 .position = {natural_of(position, "epoch"), natural_of(position, "batch")},
                 .stream = document.contains("stream") ? text_of(document, "stream") : ""},
      .tensors = named(document, "tensors", "size"),
      .counters = named(document, "counters", "value")};
  check_payload_size(parsed.tensors, payload);
  return parsed;
}

}  // namespace millrace::model
