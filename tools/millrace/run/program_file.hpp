#pragma once

#include <string>

namespace millrace::cli {

/**
 * @brief Why calls of the CUDA runtime in the program `name` cannot be taken over, and what to do.
 *
 * Reads the program's file, which is looked for as by execvp. What is not an ELF file (a script) is
 * not looked into.
 * @throws UsageError if it is linked statically, has the CUDA runtime inside, is not a program for
 *         this machine, or changes its user, for which the loader ignores libraries of others
 */
void require_catchable(const std::string& name);

/** @brief Whether the file of the program `name` calls a shared library's `function`. Says nothing
 *         of its libraries, nor of a script. */
[[nodiscard]] bool calls_function(const std::string& name, const std::string& function);

}  // namespace millrace::cli
