#include "sink/kinds.hpp"

#include <array>

namespace millrace::sink {

std::span<const SinkKind> kinds() {
  static constexpr std::array kAll{
      SinkKind{.name = "file",
               .prefixes = {"file:"},
               .package = "",
               .open_sink = open_file_sink,
               .open_source = open_file_source},
      SinkKind{.name = "rocksdb",
               .prefixes = {"rocksdb:"},
               .package = "librocksdb-dev",
               .open_sink = MILLRACE_HAS_ROCKSDB ? open_rocksdb_sink : nullptr},
      SinkKind{.name = "redis",
               .prefixes = {"redis://", "rediss://", "redis+unix://"},
               .package = "libhiredis-dev",
               .open_sink = MILLRACE_HAS_REDIS ? open_redis_sink : nullptr},
      SinkKind{.name = "kafka",
               .prefixes = {"kafka://"},
               .package = "librdkafka-dev",
               .open_sink = MILLRACE_HAS_KAFKA ? open_kafka_sink : nullptr,
               .open_source = MILLRACE_HAS_KAFKA ? open_kafka_source : nullptr},
  };
  return kAll;
}

}  // namespace millrace::sink
