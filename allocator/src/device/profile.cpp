#include "millrace/device/profile.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "device/profile_fields.hpp"
#include "millrace/embedded/profiles.hpp"
#include "millrace/text/embedded_files.hpp"
#include "millrace/text/json_document.hpp"
#include "millrace/text/json_object.hpp"

namespace millrace {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;
using profile::Dimension;
using profile::Field;
using text::JsonObject;
using text::JsonPlace;
using text::refuse;
using text::shown;

constexpr std::string_view kSchema = "millrace.profile/1";
constexpr double kLargest = 9.0e18;  // above this a figure does not fit into 63 bits

double read_value(const Json& value, const Field& field, const JsonPlace& place) {
  if (field.dimension == Dimension::flag) {
    if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
    refuse(place, shown(value), "true or false");
  }
  const char* const expected = field.may_be_zero ? "a number from 0" : "a number above 0";
  if (!value.is_number()) refuse(place, shown(value), expected);
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < 0 || (number == 0 && !field.may_be_zero)) {
    refuse(place, shown(value), expected);
  }
  return number;
}

/** Returns the figure in base units. Throws if the unit is unknown or the figure is too large. */
double scaled(double value, std::string_view unit_name, const Field& field,
              const JsonPlace& figure) {
  const profile::Unit* unit = profile::find_unit(unit_name, field.dimension);
  if (unit == nullptr) {
    refuse(figure.at("unit"), shown(unit_name),
           fmt::format("one of {}", unit_names(field.dimension)));
  }
  const double base = value * unit->scale;
  const bool whole = field.dimension == Dimension::bytes || field.dimension == Dimension::count;
  const double largest = field.dimension == Dimension::count ? 4294967295.0 : kLargest;
  if (base > largest || (whole && base != std::floor(base))) {
    refuse(figure.at("value"), shown(value),
           fmt::format("at most {}{}", largest, whole ? ", and whole" : ""));
  }
  return base;
}

void read_field(JsonObject& group, std::string_view key, const Field& field, DeviceProfile& into) {
  JsonObject figure{*group.find(key, true), group.place().at(key)};
  const double value = read_value(*figure.find("value", true), field, figure.place().at("value"));
  std::string unit, source;
  figure.text("unit", unit, true);
  field.set(into, scaled(value, unit, field, figure.place()));
  figure.text("source", source, true);
  if (source.empty())
    refuse(figure.place().at("source"), shown(source), "where the figure is from");
  into.sources[field.path] = source;
  figure.finish("a figure");
}

std::pair<std::string, std::string> split(const std::string& path) {
  const std::size_t dot = path.find('.');
  return {path.substr(0, dot), path.substr(dot + 1)};
}

OrderedJson figure_json(const Field& field, const DeviceProfile& profile) {
  OrderedJson figure;
  const double value = field.get(profile);
  switch (field.dimension) {
    case Dimension::flag:
      figure["value"] = value != 0;
      break;
    case Dimension::bytes:
    case Dimension::time:
    case Dimension::count:
      figure["value"] = static_cast<std::uint64_t>(value);
      break;
    case Dimension::bandwidth:
    case Dimension::rate:
    case Dimension::frequency:
      figure["value"] = value;
      break;
  }
  const std::string names = unit_names(field.dimension);
  figure["unit"] = names.substr(0, names.find(','));
  const auto source = profile.sources.find(field.path);
  figure["source"] = source == profile.sources.end() ? "set by the program" : source->second;
  return figure;
}

}  // namespace

DeviceProfile DeviceProfile::parse(std::string_view json, std::string_view origin) {
  const Json document = text::parse_document(json, origin);
  JsonObject root{document, {origin, ""}};
  std::string schema;
  root.text("schema", schema, true);
  if (schema != kSchema) {
    refuse(root.place().at("schema"), shown(schema), shown(std::string{kSchema}));
  }
  DeviceProfile profile;
  root.text("name", profile.name, true);
  root.text("title", profile.title, true);
  std::map<std::string, JsonObject> groups;
  for (const Field& field : profile::fields()) {
    const auto [name, key] = split(field.path);
    auto group = groups.find(name);
    if (group == groups.end()) {
      group = groups.try_emplace(name, *root.find(name, true), root.place().at(name)).first;
    }
    read_field(group->second, key, field, profile);
  }
  for (const auto& [name, group] : groups) group.finish("a device profile");
  root.finish("a device profile");
  return profile;
}

DeviceProfile DeviceProfile::load(const std::filesystem::path& file) {
  return parse(text::read_document(file), file.string());
}

DeviceProfile DeviceProfile::named(std::string_view name) {
  const EmbeddedFile& file =
      text::embedded_file("device profile", name, embedded::profiles(), false);
  return parse(file.text, fmt::format("profile {}", name));
}

std::vector<std::string> DeviceProfile::names() { return text::names_of(embedded::profiles()); }

std::string DeviceProfile::to_json() const {
  OrderedJson root;
  root["schema"] = kSchema;
  root["name"] = name;
  root["title"] = title;
  for (const Field& field : profile::fields()) {
    const auto [group, key] = split(field.path);
    root[group][key] = figure_json(field, *this);
  }
  return root.dump(2) + "\n";
}

}  // namespace millrace
