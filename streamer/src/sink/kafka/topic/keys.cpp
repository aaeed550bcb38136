#include "sink/kafka/topic/keys.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace millrace::sink {
namespace {

template <typename T>
void append_big_endian(std::string& to, T value) {
  for (int shift = static_cast<int>(sizeof value) * 8 - 8; shift >= 0; shift -= 8) {
    to.push_back(static_cast<char>(value >> shift & 0xFF));
  }
}

}  // namespace

std::string row_key(std::string_view table, std::int64_t row) {
  std::string key;
  key.reserve(table.size() + 9);
  key = table;
  key.push_back('\0');
  append_big_endian(key, static_cast<std::uint64_t>(row));
  return key;
}

std::string commit_key(std::uint32_t rank) {
  std::string key{"\0m", 2};
  append_big_endian(key, rank);
  return key;
}

std::string schema_key() { return {"\0schema", 7}; }

std::int32_t partition_of(std::string_view key, std::int32_t partitions) noexcept {
  return static_cast<std::int32_t>(XXH3_64bits(key.data(), key.size()) %
                                   static_cast<std::uint64_t>(partitions));
}

}  // namespace millrace::sink
