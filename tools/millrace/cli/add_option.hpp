#pragma once

#include <CLI/CLI.hpp>

namespace millrace::cli {

/** @brief What adds options with one value to a command: of several the last counts. */
[[nodiscard]] inline auto options_of(CLI::App& command) {
  return [&command](const char* name, auto& value, const char* shape, const char* help) {
    command.add_option(name, value, help)->type_name(shape)->take_last();
  };
}

}  // namespace millrace::cli
