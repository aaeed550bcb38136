#pragma once

namespace millrace::cli {

/** @brief All of `main`. @return the exit code */
[[nodiscard]] int run_program(int argc, const char* const* argv);

}  // namespace millrace::cli
