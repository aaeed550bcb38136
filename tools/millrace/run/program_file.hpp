#pragma once

#include <string>

namespace millrace::cli {

/**
 * @brief Refuses a program whose calls of the CUDA runtime cannot be intercepted. The error says
 *        why, and what to do.
 *
 * It looks for the program's file like execvp, and reads it. A file that is not ELF (a script) is
 * accepted without a check.
 * @throws UsageError if the program is linked statically, contains the CUDA runtime, is not a
 *         64-bit program, or is set-user-id (the loader then ignores preloaded libraries)
 */
void require_catchable(const std::string& name);

/** @brief Whether the file of the program `name` imports `function` from a shared library. It does
 *         not check the program's libraries or scripts. */
[[nodiscard]] bool calls_function(const std::string& name, const std::string& function);

}  // namespace millrace::cli
