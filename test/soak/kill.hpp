#pragma once

#include <cstdint>
#include <string>

namespace millrace::soak {

struct KillOptions {
  std::string program;  ///< the path of `millrace`
  double seconds = 60;  ///< no round starts after so long; each kind of sink has one at least
  std::uint64_t seed = 1;
  std::string sink = "all";  ///< file, rocksdb, redis, kafka, or all in turn
};

/**
 * @brief Trains and applies in processes that are killed at random instants, also the servers of
 *        sinks (brokers go down and come back), and judges what is left with a reader of its own.
 *
 * After each kill `millrace stream verify` has to count what that reader counts. A run, and an
 * applier, that end with 0 have to leave a copy that equals the checkpoint to the bit.
 * @return how many rounds broke that; each is printed with its seed and its folder, which is kept
 */
[[nodiscard]] unsigned kill_soak(const KillOptions& options);

}  // namespace millrace::soak
