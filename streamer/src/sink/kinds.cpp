#include "sink/kinds.hpp"

#include <array>

namespace millrace::sink {

std::span<const SinkKind> kinds() {
  static constexpr std::array kAll{
      SinkKind{.name = "file", .prefix = "file:", .package = ""},
      SinkKind{.name = "rocksdb", .prefix = "rocksdb:", .package = "librocksdb-dev"},
      SinkKind{.name = "redis", .prefix = "redis://", .package = "libhiredis-dev"},
      SinkKind{.name = "kafka", .prefix = "kafka://", .package = "librdkafka-dev"},
  };
  return kAll;
}

}  // namespace millrace::sink
