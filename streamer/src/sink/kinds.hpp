#pragma once

#include <memory>
#include <string_view>

#include "millrace/streamer/sink_kinds.hpp"

/// @file
/// The functions that open each kind of sink: defined in the folder of that kind, called through
/// the table in kinds.cpp. They throw like millrace::open_sink.

namespace millrace::sink {

[[nodiscard]] std::unique_ptr<Sink> open_file_sink(std::string_view address);
[[nodiscard]] std::unique_ptr<RecordSource> open_file_source(std::string_view address);
[[nodiscard]] std::unique_ptr<Sink> open_rocksdb_sink(std::string_view address);
[[nodiscard]] std::unique_ptr<Sink> open_redis_sink(std::string_view address);
[[nodiscard]] std::unique_ptr<Sink> open_kafka_sink(std::string_view address);
[[nodiscard]] std::unique_ptr<RecordSource> open_kafka_source(std::string_view address);

}  // namespace millrace::sink
