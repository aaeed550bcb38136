#pragma once

#include <functional>

#include "millrace/device/executor.hpp"

namespace millrace {

/**
 * @brief Runs `body(rank)` for each of so many ranks, each on an actor of its own, "rank 0" and so
 *        on, and waits until all have ended.
 * @throws what a rank threw, once all have ended: of several the error of the lowest rank, and an
 *         error of a rank's own before a CollectiveError, which is what others hear of it, and that
 *         before a Deadlock, which is those that wait for a rank which has ended
 */
void run_ranks(Executor& executor, unsigned ranks, const std::function<void(unsigned rank)>& body);

}  // namespace millrace
