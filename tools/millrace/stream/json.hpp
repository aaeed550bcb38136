#pragma once

#include <nlohmann/json_fwd.hpp>

#include "millrace/streamer/row_streamer.hpp"

namespace millrace::cli {

/** @brief One key per field. Times are in milliseconds. */
[[nodiscard]] nlohmann::ordered_json to_document(const CaptureCounts& counts);
[[nodiscard]] nlohmann::ordered_json to_document(const ShippingReport& sink);
[[nodiscard]] nlohmann::ordered_json to_document(const StreamingReport& report);

}  // namespace millrace::cli
