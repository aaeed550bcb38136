#include "sink/kinds.hpp"

#include <array>

namespace millrace {

// MILLRACE_HAS_NAME and MILLRACE_PACKAGE_NAME come from the client.cmake of the kind's folder. A
// kind that is not in this build keeps its row, so that messages can say how to get it.
std::span<const SinkKind> sink_kinds() {
  static constexpr std::array kAll{
      SinkKind{.name = "file",
               .prefixes = {"file:"},
               .address = "file:DIR",
               .summary = "segments in a folder, to which each rank appends",
               .is_folder = true,
               .open_sink = sink::open_file_sink,
               .open_source = sink::open_file_source,
               .keeps_order = true},
      SinkKind{.name = "rocksdb",
               .prefixes = {"rocksdb:"},
               .address = "rocksdb:DIR",
               .summary = "an embedded RocksDB",
               .package = MILLRACE_PACKAGE_ROCKSDB,
               .is_folder = true,
               .has_settings = false,
               .one_process = true,
               .open_sink = MILLRACE_HAS_ROCKSDB ? sink::open_rocksdb_sink : nullptr},
      SinkKind{.name = "redis",
               .prefixes = {"redis://", "rediss://", "redis+unix://"},
               .address = "redis://HOST:PORT",
               .summary = "a Redis server",
               .package = MILLRACE_PACKAGE_REDIS,
               .open_sink = MILLRACE_HAS_REDIS ? sink::open_redis_sink : nullptr},
      SinkKind{.name = "kafka",
               .prefixes = {"kafka://"},
               .address = "kafka://BROKERS/TOPIC",
               .summary = "a topic of a Kafka cluster",
               .package = MILLRACE_PACKAGE_KAFKA,
               .open_sink = MILLRACE_HAS_KAFKA ? sink::open_kafka_sink : nullptr,
               .open_source = MILLRACE_HAS_KAFKA ? sink::open_kafka_source : nullptr,
               .keeps_order = true},
  };
  return kAll;
}

}  // namespace millrace
