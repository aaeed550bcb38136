#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace::cli {

/** @brief The memory size of the device on which the requests of a log are replayed. */
struct ReplayMemory {
  enum class From { option, out_of_memory, full, whole, nothing };
  std::size_t bytes = 0;  ///< 0: no limit
  From from = From::nothing;
  std::string note;  ///< why the size in the log is not used: a row does not fit into it

  /** @brief Whether the size was derived from the log. It may not be exact. */
  [[nodiscard]] bool is_recorded() const noexcept { return bytes > 0 && from != From::option; }
};

/**
 * @brief The memory size of the recorded device, if the log shows that the allocator ran short of
 *        it.
 * @param given  the size that an option names; 0 if the option was not given
 */
[[nodiscard]] ReplayMemory replay_memory(const trace::AllocationLog& log, std::uint32_t device,
                                         std::size_t given = 0);

/** @brief No limit. @param row  the row that does not fit @param failure  the error of that row */
[[nodiscard]] ReplayMemory unlimited(const ReplayMemory& memory, const std::string& row,
                                     const std::string& failure);

/** @brief "a device of 4.00 GiB, as PyTorch found it when it ran out of memory". */
[[nodiscard]] std::string in_words(const ReplayMemory& memory, bool is_snapshot);

/** @brief "option", "out of memory", "full", "device"; nullptr: no limit. */
[[nodiscard]] const char* to_string(ReplayMemory::From from) noexcept;

}  // namespace millrace::cli
