#pragma once

#include <string>

namespace millrace::interpose {

/** @brief Settings from `millrace run`, in environment variables. */
struct Settings {
  /// MILLRACE_RUN_REPORT: a file, or "-" for standard error; JSON if it ends with .json. "%p" is
  /// replaced by the process's number. Empty: no report.
  std::string report;
  /// MILLRACE_RUN_JSON: a second file for the report, always as JSON; "%p" as above.
  std::string json;
  /// MILLRACE_RUN_LEAVE=cudaMalloc: cudaMalloc and cudaFree stay the runtime's own.
  bool leaves_malloc = false;
  /// MILLRACE_RUN_POLICY=millrace: the allocator may make a stream wait before memory grows.
  bool waits = false;

  /// MILLRACE_RUN_WHAT_IF=1: the program keeps its own allocator. Millrace's gets the same
  /// requests, and gives out addresses without memory.
  bool what_if = false;

  /// MILLRACE_RUN_RECORD: a file for a trace of the program's calls. Implies `what_if`.
  std::string record;

  /// MILLRACE_RUN_SNAPSHOT: a file for a PyTorch snapshot of Millrace's memory at the end, with its
  /// history and stacks.
  std::string snapshot;

  /** @brief Reads the environment. Reports unknown values on standard error, and ignores them. */
  [[nodiscard]] static Settings read();
};

/** @brief Replaces "%p" in a file's name by the process's number. A job may have many processes. */
[[nodiscard]] std::string of_this_process(std::string name);

}  // namespace millrace::interpose
