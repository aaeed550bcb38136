#pragma once

#include "explain/explained.hpp"

namespace millrace::cli {

/**
 * @brief Replays the requests of each device on other allocators, and with changes of the program.
 *
 * If the recorded allocator was short of memory, all rows of a device run on a device of that size,
 * and failed requests are retried. If the unchanged program does not fit into that size on one of
 * the allocators, the rows have no limit.
 */
void add_rows(ExplainedFile& explained, Replays replays);

}  // namespace millrace::cli
