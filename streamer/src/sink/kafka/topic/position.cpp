#include "sink/kafka/topic/position.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "millrace/text/json_document.hpp"
#include "millrace/text/json_object.hpp"

namespace millrace::sink {
namespace {

using Json = nlohmann::json;
using text::JsonObject;

template <typename Whole>
Whole whole_from(const Json& value) {
  if (!value.is_number_unsigned()) throw std::invalid_argument{"a number"};
  const auto number = value.get<std::uint64_t>();
  if (!std::in_range<Whole>(number)) throw std::invalid_argument{"a number"};
  return static_cast<Whole>(number);
}

template <typename Whole>
std::vector<Whole> list_from(const Json& list) {
  if (!list.is_array()) throw std::invalid_argument{"a list"};
  std::vector<Whole> all;
  for (const Json& value : list) all.push_back(whole_from<Whole>(value));
  return all;
}

std::map<std::uint32_t, Version> commits_from(const Json& list) {
  if (!list.is_array()) throw std::invalid_argument{"a list"};
  std::map<std::uint32_t, Version> commits;
  for (const Json& commit : list) {
    commits[whole_from<std::uint32_t>(commit.at(0))] = {whole_from<std::uint64_t>(commit.at(1)),
                                                        whole_from<std::uint64_t>(commit.at(2))};
  }
  return commits;
}

}  // namespace

std::string to_text(const TopicPosition& position) {
  using Ordered = nlohmann::ordered_json;
  Ordered commits = Ordered::array();
  for (const auto& [rank, version] : position.commits) {
    commits.push_back({rank, version.epoch, version.step});
  }
  Ordered text{
      {"offsets", position.offsets}, {"marks", std::move(commits)}, {"whole", position.whole}};
  if (!position.gaps.empty()) text["gaps"] = position.gaps;
  if (position.holes > 0) {
    text["holes"] = position.holes;
    text["filled"] = position.filled;
  }
  return text.dump();
}

TopicPosition parse_topic_position(std::string_view line) {
  try {
    const Json document = text::parse_document(line, "a position", line.size());
    JsonObject object{document, {"a position", ""}};
    TopicPosition position;
    position.offsets = list_from<std::int64_t>(*object.find("offsets", true));
    position.commits = commits_from(*object.find("marks", true));
    position.whole = object.find("whole", true)->get<bool>();
    if (const Json* const gaps = object.find("gaps")) {
      position.gaps = list_from<std::uint32_t>(*gaps);
    }
    if (const Json* const holes = object.find("holes")) {
      position.holes = whole_from<std::uint64_t>(*holes);
      position.filled = list_from<std::int64_t>(*object.find("filled", true));
    }
    return position;
  } catch (const std::exception& error) {
    throw std::invalid_argument{"'" + std::string{line} + "' is not a position in a topic"};
  }
}

}  // namespace millrace::sink
