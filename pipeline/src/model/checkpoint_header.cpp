#include "model/checkpoint_header.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "millrace/text/json_document.hpp"
#include "millrace/text/json_object.hpp"

namespace millrace::model {
namespace {

using Json = nlohmann::json;
using text::JsonObject;
using text::JsonPlace;

constexpr std::string_view kOrigin = "the header";
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

std::vector<Named> named(JsonObject& object, const char* key, const char* number) {
  const Json& list = *object.find(key, true);
  const JsonPlace place = object.place().at(key);
  if (!list.is_array()) text::refuse(place, text::shown(list), "a list");
  std::vector<Named> all(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    JsonObject item{list[i], place.at(i)};
    item.text("name", all[i].name, true);
    item.integer(number, all[i].number, 0, kMost, true);
  }
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
  JsonObject object{document, {kOrigin, ""}};
  ParsedHeader parsed;
  CheckpointHeader& header = parsed.header;
  object.text("model", header.model, true);
  object.text("data", header.data, true);
  object.integer("seed", header.seed, 0, kMost, true);
  object.integer("steps", header.steps, 0, kMost, true);
  object.integer("batch_size", header.batch_size, 0, kMost, true);
  JsonObject position{*object.find("position", true), object.place().at("position")};
  position.integer("epoch", header.position.epoch, 0, kMost, true);
  position.integer("batch", header.position.batch, 0, kMost, true);
  object.text("stream", header.stream);  // older files lack it
  parsed.tensors = named(object, "tensors", "size");
  parsed.counters = named(object, "counters", "value");
  check_payload_size(parsed.tensors, payload);
  return parsed;
}

}  // namespace millrace::model
