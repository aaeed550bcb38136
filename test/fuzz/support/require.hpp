#pragma once

#include <cstdlib>
#include <iostream>

namespace millrace::fuzz {

/// Ends the program, which a fuzzer counts as a crash, unless it holds.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "broken promise: " << what << '\n';
  std::abort();
}

}  // namespace millrace::fuzz
