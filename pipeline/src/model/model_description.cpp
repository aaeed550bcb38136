#include "millrace/pipeline/model/model_description.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "millrace/embedded/models.hpp"
#include "millrace/pipeline/model_json.hpp"
#include "millrace/text/embedded_files.hpp"
#include "millrace/text/json_document.hpp"
#include "millrace/text/json_object.hpp"

namespace millrace {
namespace {

using text::JsonObject;
using text::JsonPlace;
using text::refuse;
using text::shown;

using Json = nlohmann::json;

constexpr std::string_view kSchema = "millrace.model/1";
constexpr std::size_t kMostWidth = 4096;
constexpr std::size_t kMostUnits = 1 << 16;
constexpr std::size_t kMostLayers = 64;
constexpr std::size_t kMostRows = 100'000'000'000;
constexpr std::size_t kMostPositions = 1 << 20;

std::string_view name_of(Pooling pooling) { return pooling == Pooling::sum ? "sum" : "mean"; }
std::string_view name_of(Interaction interaction) {
  return interaction == Interaction::dot ? "dot" : "concatenate";
}

template <typename Value>
void read_choice(JsonObject& object, std::string_view key, Value& value, Value one, Value other) {
  std::string name{name_of(value)};
  object.text(key, name);
  if (name != name_of(one) && name != name_of(other)) {
    refuse(object.place().at(key), shown(name),
           fmt::format("\"{}\" or \"{}\"", name_of(one), name_of(other)));
  }
  value = name == name_of(one) ? one : other;
}

void read_pooling(JsonObject& object, Pooling& pooling) {
  read_choice(object, "pooling", pooling, Pooling::sum, Pooling::mean);
}

void read_layers(JsonObject& object, std::string_view key, std::vector<std::size_t>& layers) {
  const Json* const found = object.find(key);
  if (found == nullptr) return;
  const JsonPlace place = object.place().at(key);
  if (!found->is_array() || found->size() > kMostLayers) {
    refuse(place, shown(*found), fmt::format("a list of at most {} widths", kMostLayers));
  }
  layers.clear();
  for (std::size_t i = 0; i < found->size(); ++i) {
    const Json& width = (*found)[i];
    if (!width.is_number_unsigned() || width < 1 || width > kMostUnits) {
      refuse(place.at(i), shown(width), fmt::format("a whole number from 1 to {}", kMostUnits));
    }
    layers.push_back(width.get<std::size_t>());
  }
}

void read_float(JsonObject& object, std::string_view key, float& value, double least, double most) {
  double number = value;
  object.number(key, number, least, most);
  value = static_cast<float>(number);
}

void read_optimizer(JsonObject& model, std::string_view key, Optimizer& optimizer, bool of_rows) {
  const Json* const found = model.find(key);
  if (found == nullptr) return;
  JsonObject object{*found, model.place().at(key)};
  std::string kind;
  object.text("kind", kind, true);
  try {
    optimizer.kind = parse_optimizer(kind);
  } catch (const std::invalid_argument&) {
    refuse(object.place().at("kind"), shown(kind), optimizer_names("\""));
  }
  if (!of_rows && state_of_row(optimizer.kind) != 0) {
    refuse(object.place().at("kind"), shown(kind),
           dense_optimizer_names("\"") + ": dense parameters have no rows");
  }
  read_float(object, "learning_rate", optimizer.learning_rate, 0, 1000);
  read_float(object, "epsilon", optimizer.epsilon, 1e-30, 1);
  read_float(object, "beta1", optimizer.beta1, 0, 0.9999999);
  read_float(object, "beta2", optimizer.beta2, 0, 0.9999999);
  object.finish("an optimizer");
}

TableDescription read_table(const Json& json, const JsonPlace& place) {
  JsonObject object{json, place};
  TableDescription table;
  std::size_t rows = 0, width = 0;
  object.integer("rows", rows, 1, kMostRows);
  object.integer("width", width, 1, kMostWidth);
  if (rows != 0) table.rows = rows;
  if (width != 0) table.width = width;
  if (json.contains("pooling")) {
    Pooling pooling = Pooling::sum;
    read_pooling(object, pooling);
    table.pooling = pooling;
  }
  object.finish("a table");
  return table;
}

void read_tables(JsonObject& model, ModelDescription& description) {
  const Json* const found = model.find("tables");
  if (found == nullptr) return;
  const JsonPlace place = model.place().at("tables");
  if (!found->is_object()) refuse(place, shown(*found), "an object of tables by their names");
  for (const auto& [name, table] : found->items()) {
    description.tables[name] = read_table(table, place.at(name));
  }
}

void read_positions(JsonObject& model, ModelDescription& description) {
  const Json* const found = model.find("position_weights");
  if (found == nullptr) return;
  JsonObject object{*found, model.place().at("position_weights")};
  for (const auto& item : found->items()) {
    object.integer(item.key(), description.position_weights[item.key()], 1, kMostPositions, true);
  }
}

// Uses the fewest digits that give the same float again.
nlohmann::ordered_json number(float value) { return Json::parse(fmt::format("{}", value)); }

nlohmann::ordered_json to_document(const Optimizer& optimizer) {
  return {{"kind", to_string(optimizer.kind)},
          {"learning_rate", number(optimizer.learning_rate)},
          {"epsilon", number(optimizer.epsilon)},
          {"beta1", number(optimizer.beta1)},
          {"beta2", number(optimizer.beta2)}};
}

nlohmann::ordered_json to_document(const TableDescription& table) {
  nlohmann::ordered_json document = nlohmann::ordered_json::object();
  if (table.rows) document["rows"] = *table.rows;
  if (table.width) document["width"] = *table.width;
  if (table.pooling) document["pooling"] = name_of(*table.pooling);
  return document;
}

/** Returns the tables of these features, in the order in which they are first named. */
std::vector<TableConfig> tables_of(const std::vector<SparseFeature>& features,
                                   const ModelDescription& model) {
  std::vector<TableConfig> tables;
  for (const SparseFeature& feature : features) {
    const auto same = [&](const TableConfig& table) { return table.name == feature.table; };
    auto table = std::find_if(tables.begin(), tables.end(), same);
    if (table == tables.end()) {
      const auto given = model.tables.find(feature.table);
      const TableDescription own = given == model.tables.end() ? TableDescription{} : given->second;
      tables.push_back({.name = feature.table,
                        .rows = own.rows.value_or(feature.rows),
                        .width = own.width.value_or(model.width),
                        .pooling = own.pooling.value_or(model.pooling),
                        .features = {}});
      table = std::prev(tables.end());
    }
    table->features.push_back(feature.name);
  }
  return tables;
}

void check_names(std::string_view kind, const auto& named, const std::set<std::string>& known) {
  for (const auto& [name, unused] : named) {
    if (known.contains(name)) continue;
    throw std::invalid_argument{
        fmt::format("the model has a {} '{}' that the data does not have "
                    "(expected {})",
                    kind, name, fmt::join(known, ", "))};
  }
}

}  // namespace

void read_layers_and_optimizers(text::JsonObject& object, ModelDescription& model) {
  read_layers(object, "dense_arch", model.dense_arch);
  read_layers(object, "over_arch", model.over_arch);
  read_choice(object, "interaction", model.interaction, Interaction::dot, Interaction::concatenate);
  read_optimizer(object, "table_optimizer", model.table_optimizer, true);
  read_optimizer(object, "dense_optimizer", model.dense_optimizer, false);
}

void write_layers_and_optimizers(const ModelDescription& model, nlohmann::ordered_json& document) {
  document["dense_arch"] = model.dense_arch;
  document["over_arch"] = model.over_arch;
  document["interaction"] = name_of(model.interaction);
  document["table_optimizer"] = to_document(model.table_optimizer);
  document["dense_optimizer"] = to_document(model.dense_optimizer);
}

ModelDescription ModelDescription::parse(std::string_view json, std::string_view origin) {
  const Json document = text::parse_document(json, origin);
  JsonObject object{document, JsonPlace{origin, ""}};
  std::string schema, unused;
  object.text("schema", schema, true);
  if (schema != kSchema) {
    refuse(object.place().at("schema"), shown(schema), fmt::format("\"{}\"", kSchema));
  }
  ModelDescription model;
  object.text("description", unused);
  object.integer("width", model.width, 1, kMostWidth);
  read_pooling(object, model.pooling);
  read_tables(object, model);
  read_positions(object, model);
  read_layers_and_optimizers(object, model);
  object.finish("a model");
  return model;
}

ModelDescription ModelDescription::load(const std::filesystem::path& file) {
  return parse(text::read_document(file), file.string());
}

std::vector<std::string> ModelDescription::names() { return text::names_of(embedded::models()); }

ModelDescription ModelDescription::named(std::string_view name) {
  const EmbeddedFile& file = text::embedded_file("model", name, embedded::models(), true);
  return parse(file.text, file.name);
}

std::string ModelDescription::to_json() const {
  nlohmann::ordered_json by_name = nlohmann::ordered_json::object();
  for (const auto& [name, table] : tables) by_name[name] = to_document(table);
  nlohmann::ordered_json document{{"schema", kSchema},
                                  {"width", width},
                                  {"pooling", name_of(pooling)},
                                  {"tables", by_name},
                                  {"position_weights", Json(position_weights)}};
  write_layers_and_optimizers(*this, document);
  return document.dump(2);
}

SparseNNConfig ModelDescription::config(const InputSchema& data, std::uint64_t seed) const {
  std::set<std::string> table_names, feature_names;
  for (const auto* features : {&data.sparse, &data.weighted}) {
    for (const SparseFeature& feature : *features) table_names.insert(feature.table);
  }
  for (const SparseFeature& feature : data.sparse) feature_names.insert(feature.name);
  check_names("table", tables, table_names);
  check_names("feature without weights", position_weights, feature_names);
  return {.dense_features = data.dense.size(),
          .tables = tables_of(data.sparse, *this),
          .weighted_tables = tables_of(data.weighted, *this),
          .position_weights = position_weights,
          .dense_arch = dense_arch,
          .over_arch = over_arch,
          .interaction = interaction,
          .table_optimizer = table_optimizer,
          .dense_optimizer = dense_optimizer,
          .seed = seed};
}

InputSchema ModelDescription::fitted(InputSchema data) const {
  for (auto* features : {&data.sparse, &data.weighted}) {
    for (SparseFeature& feature : *features) {
      const auto given = tables.find(feature.table);
      if (given != tables.end()) feature.rows = given->second.rows.value_or(feature.rows);
    }
  }
  return data;
}

std::string difference(const ModelDescription& one, const ModelDescription& other) {
  const Json left = Json::parse(one.to_json()), right = Json::parse(other.to_json());
  for (const auto& [key, value] : left.items()) {
    if (value == right.at(key)) continue;
    return fmt::format("{} is {}, not {}", key, value.dump(), right.at(key).dump());
  }
  return "";
}

}  // namespace millrace
