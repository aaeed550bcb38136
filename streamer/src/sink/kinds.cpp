#include "sink/kinds.hpp"

#include <array>

#if MILLRACE_HAS_REDIS
#include "sink/redis/redis_sink.hpp"
#endif

namespace millrace::sink {
namespace {

#if MILLRACE_HAS_REDIS
std::unique_ptr<Sink> open_redis(std::string_view spec) {
  return std::make_unique<RedisSink>(spec);
}
#else
constexpr std::unique_ptr<Sink> (*open_redis)(std::string_view) = nullptr;
#endif

}  // namespace

std::span<const SinkKind> kinds() {
  static constexpr std::array kAll{
      SinkKind{.name = "file",
               .prefix = "file:",
               .package = "",
               .open_sink = open_file_sink,
               .open_source = open_file_source},
      SinkKind{.name = "rocksdb",
               .prefix = "rocksdb:",
               .package = "librocksdb-dev",
               .open_sink = MILLRACE_HAS_ROCKSDB ? open_rocksdb_sink : nullptr},
      SinkKind{.name = "redis",
               .prefix = "redis://",
               .package = "libhiredis-dev",
               .open_sink = open_redis},
      SinkKind{.name = "kafka", .prefix = "kafka://", .package = "librdkafka-dev"},
  };
  return kAll;
}

}  // namespace millrace::sink
