#pragma once

#include <cstdlib>
#include <iostream>

namespace millrace::fuzz {

/// Aborts the program unless `holds` is true. A fuzzer counts that as a crash.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "broken promise: " << what << '\n';
  std::abort();
}

}  // namespace millrace::fuzz
