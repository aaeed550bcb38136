#include "millrace/device/profile.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "device/profile_fields.hpp"
#include "millrace/embedded/profiles.hpp"
#include "text/json_document.hpp"
#include "text/nearest.hpp"
#include "text/read_file.hpp"

namespace millrace {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;
using profile::Dimension;
using profile::Field;

constexpr std::string_view kSchema = "millrace.profile/1";
constexpr double kLargest = 9.0e18;  // what fits into 63 bits

/** The beginning of a value, for messages. */
std::string shown(const Json& value) {
  constexpr std::size_t most = 60;
  std::string text = value.dump();
  if (text.size() > most) text = text.substr(0, most - 3) + "...";
  return text;
}

[[noreturn]] void refuse(std::string_view origin, std::string_view path, std::string_view problem) {
  throw std::invalid_argument(fmt::format("{}: {}: {}", origin, path, problem));
}

std::string read_text(const Json& object, const char* key, std::string_view origin,
                      std::string_view path) {
  const auto found = object.find(key);
  if (found == object.end()) refuse(origin, path, "missing; expected a string");
  if (!found->is_string()) {
    refuse(origin, path, fmt::format("expected a string, found {}", shown(*found)));
  }
  return found->get<std::string>();
}

double read_value(const Json& value, const Field& field, std::string_view origin) {
  const std::string path = field.path + ".value";
  if (field.dimension == Dimension::flag) {
    if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
    refuse(origin, path, fmt::format("expected true or false, found {}", shown(value)));
  }
  if (!value.is_number()) {
    refuse(origin, path, fmt::format("expected a number, found {}", shown(value)));
  }
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < 0 || (number == 0 && !field.may_be_zero)) {
    refuse(origin, path,
           fmt::format("expected a {} number, found {}",
                       field.may_be_zero ? "non-negative" : "positive", shown(value)));
  }
  return number;
}

void check_keys(const Json& object, const std::set<std::string>& known, std::string_view origin,
                const std::string& prefix) {
  if (!object.is_object()) {
    refuse(origin, prefix, fmt::format("expected an object, found {}", shown(object)));
  }
  for (const auto& [key, unused] : object.items()) {
    if (known.contains(key)) continue;
    const std::string meant = text::nearest(key, {known.begin(), known.end()});
    refuse(origin, prefix.empty() ? key : prefix + "." + key,
           meant.empty() ? "unknown key" : fmt::format("unknown key; did you mean {}?", meant));
  }
}

double scaled(double value, std::string_view unit_name, const Field& field,
              std::string_view origin) {
  const profile::Unit* unit = profile::find_unit(unit_name, field.dimension);
  if (unit == nullptr) {
    refuse(origin, field.path + ".unit",
           fmt::format("\"{}\" is not one of {}", unit_name, unit_names(field.dimension)));
  }
  const double base = value * unit->scale;
  const bool whole = field.dimension == Dimension::bytes || field.dimension == Dimension::count;
  const double largest = field.dimension == Dimension::count ? 4294967295.0 : kLargest;
  if (base > largest || (whole && base != std::floor(base))) {
    refuse(origin, field.path + ".value", whole ? "expected a whole number" : "too large");
  }
  return base;
}

void read_field(const Json& figure, const Field& field, std::string_view origin,
                DeviceProfile& into) {
  check_keys(figure, {"value", "unit", "source"}, origin, field.path);
  if (!figure.contains("value")) refuse(origin, field.path + ".value", "missing");
  const double value = read_value(figure.at("value"), field, origin);
  const std::string unit = read_text(figure, "unit", origin, field.path + ".unit");
  field.set(into, scaled(value, unit, field, origin));
  const std::string source = read_text(figure, "source", origin, field.path + ".source");
  if (source.empty()) refuse(origin, field.path + ".source", "says nothing");
  into.sources[field.path] = source;
}

std::pair<std::string, std::string> split(const std::string& path) {
  const std::size_t dot = path.find('.');
  return {path.substr(0, dot), path.substr(dot + 1)};
}

void check_all_keys(const Json& json, std::string_view origin) {
  std::map<std::string, std::set<std::string>> groups;
  for (const Field& field : profile::fields()) {
    const auto [group, key] = split(field.path);
    groups[group].insert(key);
  }
  std::set<std::string> top = {"schema", "name", "title"};
  for (const auto& [group, unused] : groups) top.insert(group);
  check_keys(json, top, origin, "");
  for (const auto& [group, keys] : groups) {
    if (!json.contains(group)) refuse(origin, group, "missing");
    check_keys(json.at(group), keys, origin, group);
  }
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
  const Json root = text::parse_document(json, origin);
  check_all_keys(root, origin);
  const std::string schema = read_text(root, "schema", origin, "schema");
  if (schema != kSchema) {
    refuse(origin, "schema", fmt::format("expected \"{}\", found \"{}\"", kSchema, schema));
  }
  DeviceProfile profile;
  profile.name = read_text(root, "name", origin, "name");
  profile.title = read_text(root, "title", origin, "title");
  for (const Field& field : profile::fields()) {
    const auto [group, key] = split(field.path);
    if (!root.at(group).contains(key)) refuse(origin, field.path, "missing");
    read_field(root.at(group).at(key), field, origin, profile);
  }
  return profile;
}

DeviceProfile DeviceProfile::load(const std::filesystem::path& file) {
  try {
    return parse(text::read_file(file, text::kLongestDocument), file.string());
  } catch (const text::FileProblem& problem) {
    throw std::invalid_argument(fmt::format("{}: {}", file.string(), problem.what()));
  }
}

DeviceProfile DeviceProfile::named(std::string_view name) {
  for (const EmbeddedFile& file : embedded::profiles()) {
    if (file.name == name) return parse(file.text, fmt::format("profile {}", name));
  }
  throw std::invalid_argument(
      fmt::format("no device profile \"{}\"; there are {}", name, fmt::join(names(), ", ")));
}

std::vector<std::string> DeviceProfile::names() {
  std::vector<std::string> all;
  for (const EmbeddedFile& file : embedded::profiles()) all.emplace_back(file.name);
  return all;
}

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
