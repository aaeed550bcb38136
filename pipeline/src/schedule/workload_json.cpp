#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "millrace/embedded/workloads.hpp"
#include "millrace/pipeline/data/byte_size.hpp"
#include "millrace/pipeline/schedule/workload.hpp"

namespace millrace {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSchema = "millrace.workload/1";

struct Place {
  std::string_view origin;
  std::string path;

  [[nodiscard]] Place at(std::string_view key) const {
    return {origin, path.empty() ? std::string{key} : fmt::format("{}.{}", path, key)};
  }
  [[nodiscard]] Place at(std::size_t index) const {
    return {origin, fmt::format("{}[{}]", path, index)};
  }
};

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= 40 ? text : text.substr(0, 37) + "...";
}

[[noreturn]] void refuse(const Place& place, std::string_view found, std::string_view expected) {
  throw std::invalid_argument{fmt::format("{}: {} is {}, but must be {}", place.origin,
                                          place.path.empty() ? "the document" : place.path, found,
                                          expected)};
}

/** Reads the keys of one object, each once, and refuses what nobody read. */
class ObjectReader {
 public:
  ObjectReader(const Json& object, Place place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) refuse(place_, shown(object), "an object { ... }");
  }

  /** The value of `key`, or null where it may be left out. */
  const Json* find(std::string_view key, bool required) {
    known_.emplace_back(key);
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    if (required) {
      throw std::invalid_argument{
          fmt::format("{}: {} is missing", place_.origin, place_.at(key).path)};
    }
    return nullptr;
  }

  void integer(std::string_view key, std::size_t& value, std::size_t least, std::size_t most,
               bool required = false) {
    const Json* const found = find(key, required);
    if (found == nullptr) return;
    const std::string expected = fmt::format("a whole number from {} to {}", least, most);
    if (!found->is_number_unsigned()) refuse(place_.at(key), shown(*found), expected);
    const auto number = found->get<std::uint64_t>();
    if (number < least || number > most) refuse(place_.at(key), shown(*found), expected);
    value = number;
  }

  void number(std::string_view key, double& value, double least, double most,
              bool required = false) {
    const Json* const found = find(key, required);
    if (found == nullptr) return;
    const std::string expected = fmt::format("a number from {} to {}", least, most);
    if (!found->is_number()) refuse(place_.at(key), shown(*found), expected);
    const double number = found->get<double>();
    if (!(number >= least && number <= most)) refuse(place_.at(key), shown(*found), expected);
    value = number;
  }

  void bytes(std::string_view key, std::size_t& value, bool required = false) {
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

  void text(std::string_view key, std::string& value, bool required = false) {
    const Json* const found = find(key, required);
    if (found == nullptr) return;
    if (!found->is_string()) refuse(place_.at(key), shown(*found), "a text");
    value = found->get<std::string>();
  }

  void finish() const {
    for (const auto& [key, value] : object_.items()) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      throw std::invalid_argument{fmt::format("{}: {} is not a key of a workload; there are {}",
                                              place_.origin, place_.at(key).path,
                                              fmt::join(known_, ", "))};
    }
  }

  [[nodiscard]] const Place& place() const noexcept { return place_; }

 private:
  const Json& object_;
  Place place_;
  std::vector<std::string> known_;
};

constexpr std::size_t kMostSamples = std::size_t{1} << 27;
constexpr std::size_t kMostFeatures = 100'000;
constexpr std::size_t kMostRows = 100'000'000'000;

ExtraTable read_table(const Json& json, const Place& place) {
  ObjectReader reader{json, place};
  ExtraTable table;
  reader.integer("num_embeddings", table.num_embeddings, 1, kMostRows, true);
  reader.integer("embedding_dim", table.embedding_dim, 1, 1 << 20, true);
  reader.integer("element_bytes", table.element_bytes, 1, 8);
  reader.finish();
  return table;
}

void read_shape(ObjectReader& reader, Workload& workload) {
  std::string shape{to_string(workload.shape)};
  reader.text("shape", shape);
  try {
    workload.shape = parse_loop_shape(shape);
  } catch (const std::invalid_argument&) {
    refuse(reader.place().at("shape"), shown(shape),
           "\"sparse-dist\", \"base\" or \"sparse-dist-lite\"");
  }
}

void read_features(ObjectReader& reader, Workload& workload) {
  reader.integer("num_float_features", workload.num_float_features, 0, kMostFeatures);
  reader.integer("num_unweighted_features", workload.num_unweighted_features, 0, kMostFeatures);
  reader.integer("num_weighted_features", workload.num_weighted_features, 0, kMostFeatures);
  reader.number("feature_pooling_avg", workload.feature_pooling_avg, 1, 100'000);
  reader.number("feature_pooling_std", workload.feature_pooling_std, 0, 100'000);
  reader.number("feature_pooling_variation", workload.feature_pooling_variation, 0, 0.3);
  reader.integer("base_row_size", workload.base_row_size, 0, kMostRows);
  reader.integer("embedding_feature_dim", workload.embedding_feature_dim, 0, 1 << 20);
  if (const Json* const tables = reader.find("additional_tables", false)) {
    const Place place = reader.place().at("additional_tables");
    if (!tables->is_array()) refuse(place, shown(*tables), "a list [ ... ]");
    for (std::size_t i = 0; i < tables->size(); ++i) {
      workload.additional_tables.push_back(read_table((*tables)[i], place.at(i)));
    }
  }
}

void read_compute(ObjectReader& reader, Workload& workload) {
  reader.bytes("activations", workload.activations, true);
  reader.integer("layers", workload.layers, 1, 1000);
  reader.number("compute_to_copy", workload.compute_to_copy, 0.001, 1000);
  std::size_t run_ahead = workload.run_ahead;
  reader.integer("run_ahead", run_ahead, 0, 1'000'000);
  workload.run_ahead = static_cast<unsigned>(run_ahead);
  reader.number("exchange_gb_per_s", workload.exchange_gb_per_s, 0.001, 1e6);
  reader.number("exchange_latency_us", workload.exchange_latency_us, 0, 1e6);
}

void check_sum(const Workload& workload, std::string_view origin) {
  constexpr double most = 1ull << 40;
  const bool no_input = workload.num_float_features + workload.num_unweighted_features +
                            workload.num_weighted_features + workload.additional_tables.size() ==
                        0;
  if (no_input) {
    throw std::invalid_argument{
        fmt::format("{}: a batch has no features; give num_unweighted_features, "
                    "num_weighted_features or num_float_features",
                    origin)};
  }
  if (static_cast<double>(workload.mean_batch_bytes()) > most) {
    throw std::invalid_argument{fmt::format("{}: a batch has {}, but must have at most 1 TiB",
                                            origin, format_bytes(workload.mean_batch_bytes()))};
  }
}

Json parse_text(std::string_view text, std::string_view origin) {
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
  }
}

}  // namespace

Workload Workload::parse(std::string_view json, std::string_view origin) {
  const Json document = parse_text(json, origin);
  ObjectReader reader{document, Place{origin, ""}};

  std::string schema;
  reader.text("schema", schema, true);
  if (schema != kSchema) {
    refuse(reader.place().at("schema"), shown(schema), fmt::format("\"{}\"", kSchema));
  }

  Workload workload;
  workload.name = std::filesystem::path{origin}.stem().string();
  reader.text("description", workload.description);
  read_shape(reader, workload);
  reader.integer("num_batches", workload.num_batches, 1, 1'000'000);
  reader.integer("batch_size", workload.batch_size, 1, kMostSamples, true);
  reader.integer("world_size", workload.world_size, 1, 100'000);
  read_features(reader, workload);
  read_compute(reader, workload);
  reader.finish();
  check_sum(workload, origin);
  return workload;
}

Workload Workload::load(const std::filesystem::path& file) {
  std::ifstream stream{file, std::ios::binary};
  std::string text;
  const bool readable = stream.is_open() && !std::filesystem::is_directory(file);
  if (readable) text.assign(std::istreambuf_iterator<char>{stream}, {});
  if (!readable || stream.bad()) {
    throw std::invalid_argument{fmt::format("{}: can not be read", file.string())};
  }
  return parse(text, file.string());
}

std::string Workload::to_json() const {
  nlohmann::ordered_json tables = nlohmann::ordered_json::array();
  for (const ExtraTable& table : additional_tables) {
    tables.push_back({{"num_embeddings", table.num_embeddings},
                      {"embedding_dim", table.embedding_dim},
                      {"element_bytes", table.element_bytes}});
  }
  const nlohmann::ordered_json document{{"schema", kSchema},
                                        {"description", description},
                                        {"shape", to_string(shape)},
                                        {"num_batches", num_batches},
                                        {"batch_size", batch_size},
                                        {"world_size", world_size},
                                        {"num_float_features", num_float_features},
                                        {"num_unweighted_features", num_unweighted_features},
                                        {"num_weighted_features", num_weighted_features},
                                        {"feature_pooling_avg", feature_pooling_avg},
                                        {"feature_pooling_std", feature_pooling_std},
                                        {"feature_pooling_variation", feature_pooling_variation},
                                        {"base_row_size", base_row_size},
                                        {"embedding_feature_dim", embedding_feature_dim},
                                        {"additional_tables", std::move(tables)},
                                        {"activations", activations},
                                        {"layers", layers},
                                        {"compute_to_copy", compute_to_copy},
                                        {"run_ahead", run_ahead},
                                        {"exchange_gb_per_s", exchange_gb_per_s},
                                        {"exchange_latency_us", exchange_latency_us}};
  return document.dump(2);
}

std::vector<std::string> Workload::names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded::workloads()) names.emplace_back(file.name);
  return names;
}

Workload Workload::named(std::string_view name) {
  for (const EmbeddedFile& file : embedded::workloads()) {
    if (file.name == name) return parse(file.text, file.name);
  }
  throw std::invalid_argument{fmt::format(
      "no workload is called '{}'; there are {}, or give a file", name, fmt::join(names(), ", "))};
}

}  // namespace millrace
