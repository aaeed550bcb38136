#pragma once

#include <array>
#include <string_view>

namespace millrace::cli {

/**
 * @brief Exit codes of the program. Each code has one meaning in all commands.
 *
 * A run that Ctrl-C or SIGTERM ended returns 128 plus the signal's number (`Interrupt::exit_code`).
 */
enum class ExitCode {
  done = 0,
  different = 1,
  failed = 2,
  incomplete = 3,
  raced = 4,
  out_of_memory = 5,
};

struct ExitCodeMeaning {
  ExitCode code;
  std::string_view meaning;
};

/** @brief All exit codes. docs/program.md repeats this table word for word. */
inline constexpr std::array kExitCodes{
    ExitCodeMeaning{ExitCode::done, "all was done"},
    ExitCodeMeaning{ExitCode::different, "`stream verify`: a row is not equal"},
    ExitCodeMeaning{ExitCode::failed,
                    "bad input, a failure, or a result that could not be written. The message says "
                    "what is wrong, where, and what is expected"},
    ExitCodeMeaning{ExitCode::incomplete,
                    "done, and a sink or a copy of the stream lacks rows, or lags"},
    ExitCodeMeaning{ExitCode::raced, "done, and the checker found a race in the program"},
    ExitCodeMeaning{
        ExitCode::out_of_memory,
        "done, and every run of `footprint`, `pipelines` or `replay` ran out of memory: "
        "no row has figures"},
};

[[nodiscard]] constexpr int number_of(ExitCode code) noexcept { return static_cast<int>(code); }

}  // namespace millrace::cli
