#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/streamer/row_streamer.hpp"

namespace millrace::cli {

/** @brief The values of the stream's options, not checked yet. */
struct StreamArguments {
  std::vector<std::string> sinks, skipped_tables;
  std::optional<std::string> capture, content, slots, slot_bytes, when_full, gather, queue_bytes,
      queue_policy, deadline;
};

/** @brief The checked options. */
struct StreamOptions {
  std::vector<std::string> sinks;  ///< addresses for `open_sink`; empty: nothing is streamed
  StreamingOptions streaming;
  Nanoseconds deadline = std::chrono::seconds{30};  ///< for rows that are not delivered at the end
};

/** @throws UsageError */
[[nodiscard]] StreamOptions read_stream(const StreamArguments& given);

/** @brief The settings that must be the same on all ranks. */
[[nodiscard]] std::string to_string(const StreamOptions& options);

/** @brief Opens the sinks without connecting them. @throws UsageError for an invalid address */
[[nodiscard]] std::vector<std::shared_ptr<Sink>> open_sinks(const StreamOptions& options);

}  // namespace millrace::cli
