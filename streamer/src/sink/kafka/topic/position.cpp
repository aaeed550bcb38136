#include "sink/kafka/topic/position.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace millrace::sink {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::int64_t> offsets_from(const Json& list) {
  if (!list.is_array()) throw std::invalid_argument{"offsets"};
  std::vector<std::int64_t> offsets;
  for (const Json& offset : list) {
    const auto number = offset.get<std::int64_t>();
    if (!offset.is_number_integer() || number < 0) throw std::invalid_argument{"an offset"};
    offsets.push_back(number);
  }
  return offsets;
}

}  // namespace

std::string to_text(const TopicPosition& position) {
  Json commits = Json::array();
  for (const auto& [rank, version] : position.commits) {
    commits.push_back({rank, version.epoch, version.step});
  }
  Json text{
      {"offsets", position.offsets}, {"marks", std::move(commits)}, {"whole", position.whole}};
  if (!position.gaps.empty()) text["gaps"] = position.gaps;
  if (position.holes > 0) {
    text["holes"] = position.holes;
    text["filled"] = position.filled;
  }
  return text.dump();
}

TopicPosition parse_topic_position(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    TopicPosition position{.offsets = offsets_from(json.at("offsets"))};
    for (const Json& commit : json.at("marks")) {
      position.commits[commit.at(0).get<std::uint32_t>()] = {commit.at(1).get<std::uint64_t>(),
                                                             commit.at(2).get<std::uint64_t>()};
    }
    position.whole = json.at("whole").get<bool>();
    if (json.contains("gaps")) {
      position.gaps = json.at("gaps").get<std::vector<std::uint32_t>>();
    }
    if (json.contains("holes")) {
      position.holes = json.at("holes").get<std::uint64_t>();
      position.filled = offsets_from(json.at("filled"));
    }
    return position;
  } catch (const std::exception& error) {
    throw std::invalid_argument{"'" + std::string{text} + "' is no position in a topic"};
  }
}

}  // namespace millrace::sink
