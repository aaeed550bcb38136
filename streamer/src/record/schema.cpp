#include "millrace/streamer/schema.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "millrace/streamer/record.hpp"
#include "millrace/text/json_document.hpp"
#include "millrace/text/json_object.hpp"
#include "millrace/text/parse_enum.hpp"

namespace millrace {
namespace {

using text::JsonObject;
using text::JsonPlace;
using text::refuse;
using text::shown;

constexpr std::size_t kMostFloats = kLargestRecord / sizeof(float) / 4;

StreamedTable table_from(const nlohmann::json& value, const JsonPlace& place) {
  JsonObject object{value, place};
  std::size_t rows = 0, width = 0, state = 0;
  StreamedTable table;
  object.text("name", table.name, true);
  object.integer("rows", rows, 1, std::numeric_limits<std::int64_t>::max(), true);
  object.integer("width", width, 1, kMostFloats, true);
  object.integer("state", state, 0, kMostFloats, true);
  object.finish("a table");
  table.rows = rows;
  table.width = static_cast<std::uint32_t>(width);
  table.state = static_cast<std::uint32_t>(state);
  return table;
}

StreamSchema schema_from(std::string_view json) {
  const JsonPlace place{"a schema", ""};
  const nlohmann::json document = text::parse_document(json, place.origin);
  JsonObject object{document, place};
  StreamSchema schema;
  std::string content;
  object.text("content", content, true);
  schema.content = parse_row_content(content);
  const nlohmann::json& tables = *object.find("tables", true);
  if (!tables.is_array()) refuse(place.at("tables"), shown(tables), "an array of tables");
  std::set<std::string> names;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    schema.tables.push_back(table_from(tables[i], place.at("tables").at(i)));
    if (!names.insert(schema.tables.back().name).second) {
      refuse(place.at("tables").at(i), schema.tables.back().name, "a name that is there once");
    }
  }
  object.finish("a schema");
  return schema;
}

}  // namespace

std::string_view to_string(RowContent content) noexcept {
  switch (content) {
    case RowContent::ids:
      return "ids";
    case RowContent::weights:
      return "weights";
    case RowContent::weights_and_state:
      return "weights-and-state";
  }
  return "?";
}

RowContent parse_row_content(std::string_view name) {
  return text::parse_enum("row content", name, kRowContents);
}

std::string to_json(const StreamSchema& schema) {
  nlohmann::ordered_json tables = nlohmann::ordered_json::array();
  for (const StreamedTable& table : schema.tables) {
    tables.push_back({{"name", table.name},
                      {"rows", table.rows},
                      {"width", table.width},
                      {"state", table.state}});
  }
  try {
    std::string json =
        nlohmann::ordered_json{{"content", to_string(schema.content)}, {"tables", tables}}.dump();
    if (json.size() < text::kLongestDocument) return json;  // a file has a line end as well
    throw RecordError{fmt::format("the schema of {} tables has {} bytes (expected fewer than {})",
                                  schema.tables.size(), json.size(), text::kLongestDocument)};
  } catch (const nlohmann::json::type_error&) {
    throw RecordError{"the name of a table is not UTF-8"};
  }
}

StreamSchema parse_stream_schema(std::string_view json) {
  try {
    return schema_from(json);
  } catch (const std::invalid_argument& error) {
    throw RecordError{error.what()};
  }
}

std::string difference(const StreamSchema& here, const StreamSchema& there) {
  if (here.content != there.content) {
    return fmt::format("rows are {} here and {} there", to_string(here.content),
                       to_string(there.content));
  }
  const auto description = [](const StreamedTable& table) {
    return fmt::format("'{}' of {} rows, {} wide, with {} numbers of state", table.name, table.rows,
                       table.width, table.state);
  };
  for (std::size_t i = 0; i < std::min(here.tables.size(), there.tables.size()); ++i) {
    if (here.tables[i] == there.tables[i]) continue;
    return fmt::format("table {} is {} here and {} there", i, description(here.tables[i]),
                       description(there.tables[i]));
  }
  if (here.tables.size() == there.tables.size()) return {};
  return fmt::format("there are {} tables here and {} there", here.tables.size(),
                     there.tables.size());
}

}  // namespace millrace
