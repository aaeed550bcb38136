#pragma once

#include <cstdint>
#include <string>

namespace millrace::soak {

struct KillOptions {
  std::string program;  ///< the path of `millrace`
  double seconds = 60;  ///< no round starts after this time, except the first one of each sink
  std::uint64_t seed = 1;
  std::string sink = "all";  ///< file, rocksdb, redis, kafka, or all in turn
};

/**
 * @brief Trains and applies in processes that it kills at random instants. Also kills the servers
 *        of sinks (brokers go down and come back). Checks the remaining data with its own reader.
 *
 * After each kill, `millrace stream verify` must count what that reader counts. After a run or an
 * applier that ends with 0, the copy must equal the checkpoint bit by bit.
 * @return number of rounds that failed; each is printed with its seed and its folder, which is kept
 */
[[nodiscard]] unsigned kill_soak(const KillOptions& options);

}  // namespace millrace::soak
