#pragma once

#include <string_view>

namespace millrace::cli {

/**
 * @brief Prepares stdin, stdout and stderr. Call it before anything else.
 *
 * If the parent process closed one of the three, this opens it, so that no file gets its number
 * and the text meant for it. Writing to such a stdout still fails. From then on a write to a closed
 * socket is an error of the call, without SIGPIPE.
 */
void prepare_standard_streams();

/**
 * @brief Writes to standard output at once.
 *
 * An error is kept for `finish_standard_output`, so that training goes on. If the reader has closed
 * the pipe, SIGPIPE ends the process, as it does with other programs.
 */
void print(std::string_view text);

/**
 * @brief Flushes standard output.
 * @throws UsageError if some text did not get there, with this or an earlier call: the disk is
 *         full, or the pipe is closed
 */
void finish_standard_output();

}  // namespace millrace::cli
