#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace::cli {

/** @brief The memory of the device on which the requests of a log are replayed. */
struct ReplayMemory {
  enum class From { option, out_of_memory, full, whole, nothing };
  std::size_t bytes = 0;  ///< 0: no limit
  From from = From::nothing;
  std::string note;  ///< why the size in the log is not used: a row does not fit into it

  /** @brief Whether the size comes from the log, which may not have it exactly. */
  [[nodiscard]] bool is_recorded() const noexcept { return bytes > 0 && from != From::option; }
};

/**
 * @brief The memory that the log shows its device to have had, if the recorded allocator was short
 *        of it.
 * @param given  the size that an option names; 0: none
 */
[[nodiscard]] ReplayMemory replay_memory(const trace::AllocationLog& log, std::uint32_t device,
                                         std::size_t given = 0);

/** @brief Without a limit. @param row  the row that does not fit @param failure  how it failed */
[[nodiscard]] ReplayMemory unlimited(const ReplayMemory& memory, const std::string& row,
                                     const std::string& failure);

/** @brief "a device of 4.00 GiB, as PyTorch found it when it ran out of memory". */
[[nodiscard]] std::string in_words(const ReplayMemory& memory, bool is_snapshot);

/** @brief "option", "out of memory", "full", "device"; nullptr: no limit. */
[[nodiscard]] const char* to_string(ReplayMemory::From from) noexcept;

}  // namespace millrace::cli
