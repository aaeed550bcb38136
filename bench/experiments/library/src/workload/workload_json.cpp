#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "millrace/embedded/workloads.hpp"
#include "millrace/experiment/workload.hpp"
#include "millrace/memory/byte_size.hpp"
#include "millrace/pipeline/model_json.hpp"
#include "millrace/text/embedded_files.hpp"
#include "millrace/text/json_document.hpp"
#include "millrace/text/json_object.hpp"

namespace millrace::experiment {
namespace {

using text::JsonObject;
using text::JsonPlace;
using text::refuse;
using text::shown;

using Json = nlohmann::json;

constexpr std::string_view kSchema = "millrace.workload/1";
constexpr std::size_t kMostSamples = std::size_t{1} << 27;
constexpr std::size_t kMostFeatures = 100'000;
constexpr std::size_t kMostFloats = 100'000'000;  // an image of 224 x 224 x 3 has 150,528 values
constexpr std::size_t kMostRows = 100'000'000'000;

ExtraTable read_table(const Json& json, const JsonPlace& place) {
  JsonObject reader{json, place};
  ExtraTable table;
  reader.integer("num_embeddings", table.num_embeddings, 1, kMostRows, true);
  reader.integer("embedding_dim", table.embedding_dim, 1, 1 << 20, true);
  reader.integer("element_bytes", table.element_bytes, 1, 8);
  reader.finish("a workload");
  return table;
}

void read_shape(JsonObject& reader, Workload& workload) {
  std::string shape{to_string(workload.shape)};
  reader.text("shape", shape);
  try {
    workload.shape = parse_pipeline_kind(shape);
  } catch (const std::invalid_argument&) {
    refuse(reader.place().at("shape"), shown(shape),
           "\"sparse-dist\", \"base\" or \"sparse-dist-lite\"");
  }
}

void read_features(JsonObject& reader, Workload& workload) {
  reader.integer("num_float_features", workload.num_float_features, 0, kMostFloats);
  reader.integer("float_feature_bytes", workload.float_feature_bytes, 1, 4);
  if (workload.float_feature_bytes == 3) {
    refuse(reader.place().at("float_feature_bytes"), "3", "1, 2 or 4");
  }
  reader.integer("num_unweighted_features", workload.num_unweighted_features, 0, kMostFeatures);
  reader.integer("num_weighted_features", workload.num_weighted_features, 0, kMostFeatures);
  reader.number("feature_pooling_avg", workload.feature_pooling_avg, 1, 100'000);
  reader.number("feature_pooling_std", workload.feature_pooling_std, 0, 100'000);
  reader.number("feature_pooling_variation", workload.feature_pooling_variation, 0, 0.3);
  reader.integer("base_row_size", workload.base_row_size, 0, kMostRows);
  reader.integer("embedding_feature_dim", workload.embedding_feature_dim, 0, 1 << 20);
  if (const Json* const tables = reader.find("additional_tables", false)) {
    const JsonPlace place = reader.place().at("additional_tables");
    if (!tables->is_array()) refuse(place, shown(*tables), "a list [ ... ]");
    for (std::size_t i = 0; i < tables->size(); ++i) {
      workload.additional_tables.push_back(read_table((*tables)[i], place.at(i)));
    }
  }
}

void read_compute(JsonObject& reader, Workload& workload) {
  reader.bytes("activations", workload.activations, true);
  reader.integer("layers", workload.layers, 1, 1000);
  reader.number("compute_to_copy", workload.compute_to_copy, 0.001, 1000);
  if (reader.find("compute_ms", false) != nullptr) {
    reader.number("compute_ms", workload.compute_ms.emplace(), 0.001, 1e6);
  }
  std::size_t run_ahead = workload.run_ahead;
  reader.integer("run_ahead", run_ahead, 0, 1'000'000);
  workload.run_ahead = static_cast<unsigned>(run_ahead);
  reader.integer("copies_ahead", workload.copies_ahead, 0, 1000);
  if (reader.find("exchange_gb_per_s", false) != nullptr) {
    reader.number("exchange_gb_per_s", workload.exchange_gb_per_s.emplace(), 0.001, 1e6);
  }
  reader.number("exchange_latency_us", workload.exchange_latency_us, 0, 1e6);
}

void read_size(JsonObject& reader, const char* key, std::optional<std::size_t>& size) {
  if (reader.find(key, false) != nullptr) reader.bytes(key, size.emplace(), true);
}

void read_loop(JsonObject& reader, Workload& workload) {
  reader.number("host_us", workload.host_us, 0, 1e6);
  read_size(reader, "parameters", workload.parameters);
  read_size(reader, "gradients", workload.gradients);
  reader.bytes("optimizer_state", workload.optimizer_state);
  reader.number("activations_by_ids", workload.activations_by_ids, 0, 1);
  reader.number("layer_ratio", workload.layer_ratio, 0.1, 1);
  reader.integer("checkpoint_every", workload.checkpoint_every, 0, 1000);
  reader.integer("accumulate", workload.accumulate, 1, 1'000'000);
  reader.integer("evaluate_every", workload.evaluate_every, 0, 1'000'000);
  reader.integer("evaluation_batches", workload.evaluation_batches, 1, 1000);
  reader.bytes("gathered", workload.gathered);
  reader.integer("gathers_ahead", workload.gathers_ahead, 0, 1000);
  reader.integer("offload_every", workload.offload_every, 0, 1000);
  reader.integer("offloads_ahead", workload.offloads_ahead, 0, 1000);
}

void read_model(JsonObject& reader, Workload& workload) {
  const Json* const found = reader.find("model");
  if (found == nullptr) return;
  if (workload.float_feature_bytes != sizeof(float)) {
    refuse(reader.place().at("float_feature_bytes"), std::to_string(workload.float_feature_bytes),
           "4, since the workload has a model");
  }
  JsonObject object{*found, reader.place().at("model")};
  read_layers_and_optimizers(object, workload.model.emplace());
  object.finish("a workload's model");
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

}  // namespace

Workload Workload::parse(std::string_view json, std::string_view origin) {
  const Json document = text::parse_document(json, origin);
  JsonObject reader{document, JsonPlace{origin, ""}};

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
  read_loop(reader, workload);
  read_model(reader, workload);
  reader.finish("a workload");
  check_sum(workload, origin);
  return workload;
}

Workload Workload::load(const std::filesystem::path& file) {
  return parse(text::read_document(file), file.string());
}

std::string Workload::to_json() const {
  nlohmann::ordered_json tables = nlohmann::ordered_json::array();
  for (const ExtraTable& table : additional_tables) {
    tables.push_back({{"num_embeddings", table.num_embeddings},
                      {"embedding_dim", table.embedding_dim},
                      {"element_bytes", table.element_bytes}});
  }
  nlohmann::ordered_json document{{"schema", kSchema},
                                  {"description", description},
                                  {"shape", to_string(shape)},
                                  {"num_batches", num_batches},
                                  {"batch_size", batch_size},
                                  {"world_size", world_size},
                                  {"num_float_features", num_float_features},
                                  {"float_feature_bytes", float_feature_bytes},
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
                                  {"copies_ahead", copies_ahead},
                                  {"exchange_latency_us", exchange_latency_us},
                                  {"host_us", host_us},
                                  {"optimizer_state", optimizer_state},
                                  {"activations_by_ids", activations_by_ids},
                                  {"layer_ratio", layer_ratio},
                                  {"checkpoint_every", checkpoint_every},
                                  {"accumulate", accumulate},
                                  {"evaluate_every", evaluate_every},
                                  {"evaluation_batches", evaluation_batches},
                                  {"gathered", gathered},
                                  {"gathers_ahead", gathers_ahead},
                                  {"offload_every", offload_every},
                                  {"offloads_ahead", offloads_ahead}};
  if (parameters) document["parameters"] = *parameters;
  if (gradients) document["gradients"] = *gradients;
  if (compute_ms) document["compute_ms"] = *compute_ms;
  if (exchange_gb_per_s) document["exchange_gb_per_s"] = *exchange_gb_per_s;
  if (model) write_layers_and_optimizers(*model, document["model"]);
  return document.dump(2);
}

std::vector<std::string> Workload::names() { return text::names_of(embedded::workloads()); }

Workload Workload::named(std::string_view name) {
  const EmbeddedFile& file = text::embedded_file("workload", name, embedded::workloads(), true);
  return parse(file.text, file.name);
}

}  // namespace millrace::experiment
