#pragma once

#include <string_view>

namespace millrace::cli {

/**
 * @brief To be called first. Opens what the caller has closed of stdin, stdout and stderr, so that
 * no file gets one of their numbers and the text meant for them; writing to stdout still fails.
 *        From then on a closed socket is an error of a call and no signal.
 */
void prepare_standard_streams();

/**
 * @brief Writes to standard output at once. An error is kept for `finish_standard_output`: what was
 *        begun, as training, goes on. A pipe that nobody reads any more ends the process by
 * SIGPIPE, as it ends others.
 */
void print(std::string_view text);

/**
 * @brief Ends what is under way on standard output.
 * @throws UsageError if any text, by whatever call, did not get there: a full disk, a closed pipe
 */
void finish_standard_output();

}  // namespace millrace::cli
