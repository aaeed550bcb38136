#pragma once

#include <memory>

namespace CLI {
class App;
}

namespace millrace::cli {

/** @brief Makes the program with all its commands and options. */
[[nodiscard]] std::unique_ptr<CLI::App> make_program();

/** @brief The body of `main`. @return the exit code */
[[nodiscard]] int run_program(int argc, const char* const* argv);

}  // namespace millrace::cli
