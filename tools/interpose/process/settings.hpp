#pragma once

#include <string>

namespace millrace::interpose {

/** @brief What `millrace run` asks of this library, by the environment. */
struct Settings {
  /// MILLRACE_RUN_REPORT: a file, or "-" for standard error; JSON if it ends with .json. "%p" in it
  /// is the process's number. Empty: no report.
  std::string report;
  /// MILLRACE_RUN_JSON: a further file for the report, as JSON whatever its name is; "%p" as above.
  std::string json;
  /// MILLRACE_RUN_LEAVE=cudaMalloc: cudaMalloc and cudaFree stay the runtime's own.
  bool leaves_malloc = false;
  /// MILLRACE_RUN_POLICY=millrace: a stream may be made to wait before memory grows.
  bool waits = false;

  /// MILLRACE_RUN_WHAT_IF=1: the program keeps its own allocator. Millrace's gets the same
  /// requests, and gives out addresses without memory.
  bool what_if = false;

  /// MILLRACE_RUN_RECORD: a file for a trace of what the program does. Implies `what_if`.
  std::string record;

  /// MILLRACE_RUN_SNAPSHOT: a file for a PyTorch snapshot of Millrace's memory at the end, with its
  /// history and stacks.
  std::string snapshot;

  /** @brief Reads the environment. Says on standard error what is not known, and ignores it. */
  [[nodiscard]] static Settings read();
};

/** @brief A file's name with the process's number for "%p": a job may have several processes. */
[[nodiscard]] std::string of_this_process(std::string name);

}  // namespace millrace::interpose
