#pragma once

#include <nlohmann/json.hpp>

#include "millrace/pipeline/model/model_description.hpp"
#include "millrace/text/json_object.hpp"

namespace millrace {

/** @brief Reads what a model has beside its tables: layers, interaction and optimizers. */
void read_layers_and_optimizers(text::JsonObject& object, ModelDescription& model);
/** @brief Adds what `read_layers_and_optimizers` reads, every key. */
void write_layers_and_optimizers(const ModelDescription& model, nlohmann::ordered_json& document);

}  // namespace millrace
