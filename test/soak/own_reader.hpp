#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

/// Reads sinks and checkpoints by their documented layouts (docs/sinks.md, docs/train.md). Uses no
/// code of the sinks or checkpoints, because it checks the reports of `millrace stream verify`.

namespace millrace::soak {

/// The newest value of one row.
struct OwnRow {
  std::uint64_t epoch = 0, step = 0;
  std::vector<float> numbers;  ///< the weights
};

/// The content of a sink: the rows of each table by number, and the expected number of rows.
struct OwnCopy {
  std::map<std::string, std::map<std::int64_t, OwnRow>> rows;
  std::map<std::string, std::int64_t> expected;
  [[nodiscard]] bool empty() const { return expected.empty(); }
};

/// Reads a folder that `file:DIR` wrote. Rows after the last complete commit of a segment do not
/// count.
[[nodiscard]] OwnCopy read_folder(const std::filesystem::path& folder);

/// Reads a database that `rocksdb:DIR` wrote and that no process has open.
[[nodiscard]] OwnCopy read_rocksdb(const std::filesystem::path& folder);

/// Reads the data that `redis://.../PREFIX` wrote.
/// @param ask  sends a command and returns the whole reply in the form of the protocol
[[nodiscard]] OwnCopy read_redis(
    const std::function<std::string(const std::vector<std::string>&)>& ask,
    const std::string& prefix);

/// Reads the data that `kafka://BROKERS/TOPIC` wrote, up to the current ends of the partitions.
[[nodiscard]] OwnCopy read_kafka(const std::string& brokers, const std::string& topic);

/// The result of comparing the rows of a copy with a checkpoint, bit by bit.
struct OwnComparison {
  std::uint64_t rows = 0, equal = 0, unequal = 0, absent = 0;
};
[[nodiscard]] OwnComparison compare(const OwnCopy& copy, const std::filesystem::path& checkpoint);

}  // namespace millrace::soak
