#pragma once

#include <string_view>

namespace millrace::cli {

/**
 * @brief Prepares stdin, stdout and stderr. Call it before anything else.
 *
 * If the parent process closed one of the three, this opens /dev/null in its place. Otherwise the
 * next opened file would get its number and would receive text meant for the terminal. Writing to
 * such a stdout still fails. The process ignores SIGPIPE from now on, so a write to a closed socket
 * returns an error.
 */
void prepare_standard_streams();

/**
 * @brief Writes to standard output immediately.
 *
 * An error is stored for `finish_standard_output`, so that training continues. If the reader has
 * closed the pipe, SIGPIPE ends the process, as for other programs.
 */
void print(std::string_view text);

/**
 * @brief Flushes standard output.
 * @throws UsageError if this write or an earlier one failed: the disk is full, or the pipe is
 *         closed
 */
void finish_standard_output();

}  // namespace millrace::cli
