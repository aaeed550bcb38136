#pragma once

#include <nlohmann/json_fwd.hpp>

#include "train/session.hpp"

namespace millrace::cli {

/** @brief The document `millrace.train/1`. docs/train.md lists the keys. */
[[nodiscard]] nlohmann::ordered_json to_document(const TrainOptions& options,
                                                 const TrainResult& result);

}  // namespace millrace::cli
