#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>

#include "millrace/streamer/sink.hpp"

namespace millrace::sink {

/** @brief A kind of sink that users can name. Functions throw as millrace::open_sink does. */
struct SinkKind {
  std::string_view name;
  std::array<std::string_view, 3> prefixes;  ///< that what users write begins with one of
  std::string_view package;                  ///< of Debian, that a build with it takes
  std::unique_ptr<Sink> (*open_sink)(std::string_view spec) = nullptr;  ///< null: not in this build
  std::unique_ptr<RecordSource> (*open_source)(std::string_view spec) = nullptr;  ///< null: none
};

[[nodiscard]] std::span<const SinkKind> kinds();

[[nodiscard]] std::unique_ptr<Sink> open_file_sink(std::string_view spec);
[[nodiscard]] std::unique_ptr<RecordSource> open_file_source(std::string_view spec);
[[nodiscard]] std::unique_ptr<Sink> open_rocksdb_sink(std::string_view spec);
[[nodiscard]] std::unique_ptr<Sink> open_redis_sink(std::string_view spec);
[[nodiscard]] std::unique_ptr<Sink> open_kafka_sink(std::string_view spec);
[[nodiscard]] std::unique_ptr<RecordSource> open_kafka_source(std::string_view spec);

}  // namespace millrace::sink
