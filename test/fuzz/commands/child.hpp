#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace millrace::fuzz {

struct ChildLimits {
  /// RLIMIT_DATA: private memory that may be written. Addresses have no limit, because virtual
  /// devices reserve many.
  std::uint64_t memory = std::uint64_t{2} << 30;
  unsigned cpu_seconds = 20;
  unsigned seconds = 300;  ///< of real time, for a process that waits forever
};

struct ChildRun {
  int exit_code = -1;
  int signal = 0;  ///< signal that ended it; 0 if it ended by itself
  std::string errors;
};

/// Runs the program in a folder. Its input and output are /dev/null.
[[nodiscard]] ChildRun run_child(const std::string& program,
                                 const std::vector<std::string>& arguments,
                                 const std::filesystem::path& folder, const ChildLimits& limits);

}  // namespace millrace::fuzz
