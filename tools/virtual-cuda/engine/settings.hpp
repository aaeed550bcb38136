#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::virtual_cuda {

/** @brief When enqueued work takes effect. docs/virtual-cuda.md describes the schedules. */
enum class Mode { instant, lag, adversarial, timed };

/** @brief Whether accesses are checked for order, and what orders calls of different threads. */
enum class Check {
  off,
  calls,   ///< calls of all threads are ordered as they are made
  threads  ///< only synchronization that the program declares orders its threads
};

/** @brief Settings of the virtual runtime, from environment variables. */
struct Settings {
  Mode mode = Mode::instant;
  std::uint64_t lag = 0;   ///< mode `lag`: operations and queries by which completion is late
  std::uint64_t seed = 0;  ///< mode `adversarial`
  std::string profile =
      "h200";  ///< device profile: the facts of every GPU, and the costs of `timed`
  unsigned gpus = 1;
  std::optional<std::size_t> memory;  ///< bytes of each GPU, in place of the profile's
  std::string report;   ///< file of the report at exit; "-" is standard error; empty: none
  std::string kernels;  ///< shared library with host implementations of kernels; may be empty
  Check check = Check::off;
  std::string costs;  ///< file with times of kernels by name; may be empty

  /**
   * @brief Parses `MILLRACE_VIRTUAL`: `SCHEDULE[,profile=NAME][,gpus=N][,memory=SIZE]`.
   * @param text  SCHEDULE is `instant`, `lag:N`, `adversarial:SEED`, or the name of a profile
   * @throws std::invalid_argument that says what is wrong and what is valid
   */
  [[nodiscard]] static Settings parse(std::string_view text);
  /** @brief Reads MILLRACE_VIRTUAL, _REPORT, _KERNELS, _COSTS and _CHECK. @throws as `parse` */
  [[nodiscard]] static Settings from_environment();

  /** @brief The schedule in the notation of `parse`. */
  [[nodiscard]] std::string schedule() const;
};

}  // namespace millrace::virtual_cuda
