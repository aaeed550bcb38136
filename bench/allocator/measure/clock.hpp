#pragma once

#include <malloc.h>
#include <time.h>

#include <chrono>
#include <cstddef>
#include <optional>

namespace millrace::bench {

/// CPU time of the calling thread. Other programs on the machine do not add to it.
[[nodiscard]] inline double thread_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

[[nodiscard]] inline double wall_ns() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Bytes that malloc has allocated for the main thread; std::nullopt if the C library or a
/// sanitizer does not report them.
[[nodiscard]] inline std::optional<double> host_bytes() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
#else
  return std::nullopt;
#endif
}

}  // namespace millrace::bench
