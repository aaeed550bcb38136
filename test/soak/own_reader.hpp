#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

/// Reads sinks and checkpoints by their documented layouts (docs/sinks.md, docs/train.md), with no
/// code of the sinks or of the checkpoints: what `millrace stream verify` says is checked by it.

namespace millrace::soak {

/// The newest value of one row.
struct OwnRow {
  std::uint64_t epoch = 0, step = 0;
  std::vector<float> numbers;  ///< the weights
};

/// What a sink has: rows of each table by their number, and how many rows each table should have.
struct OwnCopy {
  std::map<std::string, std::map<std::int64_t, OwnRow>> rows;
  std::map<std::string, std::int64_t> expected;
  [[nodiscard]] bool empty() const { return expected.empty(); }
};

/// A folder that `file:DIR` wrote. Rows behind the last whole commit of a segment do not count.
[[nodiscard]] OwnCopy read_folder(const std::filesystem::path& folder);

/// A database that `rocksdb:DIR` wrote, and that nobody has open.
[[nodiscard]] OwnCopy read_rocksdb(const std::filesystem::path& folder);

/// What `redis://.../PREFIX` wrote.
/// @param ask  sends a command, and gives the whole reply as the protocol has it
[[nodiscard]] OwnCopy read_redis(
    const std::function<std::string(const std::vector<std::string>&)>& ask,
    const std::string& prefix);

/// What `kafka://BROKERS/TOPIC` wrote: all that is there, up to the ends that the partitions have.
[[nodiscard]] OwnCopy read_kafka(const std::string& brokers, const std::string& topic);

/// How the rows of a copy compare with a checkpoint, bit by bit.
struct OwnComparison {
  std::uint64_t rows = 0, equal = 0, unequal = 0, absent = 0;
};
[[nodiscard]] OwnComparison compare(const OwnCopy& copy, const std::filesystem::path& checkpoint);

}  // namespace millrace::soak
