#pragma once

#include <functional>

#include "millrace/device/executor.hpp"

namespace millrace {

/**
 * @brief Runs `body(rank)` for each rank and blocks until all have ended.
 *
 * Each rank runs on its own actor (a thread of the executor), named "rank 0", "rank 1", ...
 * @param ranks  number of ranks
 * @throws the exception of a rank, after all ranks have ended. If several ranks threw, the root
 * cause is preferred: a rank's own error first, then CollectiveError (another rank failed), then
 * Deadlock (a rank waited for one that had ended); among equals, that of the lowest rank.
 */
void run_ranks(Executor& executor, unsigned ranks, const std::function<void(unsigned rank)>& body);

}  // namespace millrace
