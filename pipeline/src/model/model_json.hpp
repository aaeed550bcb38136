#pragma once

#include <nlohmann/json.hpp>

#include "data/json_reader.hpp"
#include "millrace/pipeline/model/model_description.hpp"

namespace millrace {

/** @brief Reads what a model has beside its tables: layers, interaction and optimizers. */
void read_layers_and_optimizers(JsonObject& object, ModelDescription& model);
/** @brief Adds what `read_layers_and_optimizers` reads, every key. */
void write_layers_and_optimizers(const ModelDescription& model, nlohmann::ordered_json& document);

}  // namespace millrace
