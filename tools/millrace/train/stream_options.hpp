#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/streamer/row_streamer.hpp"

namespace millrace::cli {

/** @brief What the user typed of the stream of changed rows. */
struct StreamArguments {
  std::vector<std::string> sinks, skipped_tables;
  std::optional<std::string> capture, content, slots, slot_bytes, when_full, gather, queue_bytes,
      queue_policy, deadline;
};

/** @brief The same, checked. */
struct StreamOptions {
  std::vector<std::string> sinks;  ///< as open_sink reads them; none: nothing is streamed
  StreamingOptions streaming;
  Nanoseconds deadline = std::chrono::seconds{30};  ///< for what is left at the end
};

/** @throws UsageError */
[[nodiscard]] StreamOptions read_stream(const StreamArguments& given);

/** @brief What all ranks have to agree on. */
[[nodiscard]] std::string to_string(const StreamOptions& options);

/** @brief Opened, not connected. @throws UsageError for what can be no sink */
[[nodiscard]] std::vector<std::shared_ptr<Sink>> open_sinks(const StreamOptions& options);

}  // namespace millrace::cli
