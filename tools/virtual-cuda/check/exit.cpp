#include "check/exit.hpp"

#include <unistd.h>

#include <cstdio>

#include "check/checker.hpp"

namespace millrace::virtual_cuda {
namespace {

bool ends_with_races = false;

// Runs after the program's own destructors. Destructors that run later have nothing to write.
__attribute__((destructor)) void end() {
  if (!ends_with_races) return;
  std::fflush(nullptr);
  _exit(kExitWithRaces);
}

}  // namespace

void keep_status(int status, void*) noexcept {
  const bool child =
      process_refusal.load(std::memory_order_relaxed) == cudaErrorInitializationError;
  ends_with_races = status == 0 && !child && checker()->log().found() != 0;
}

}  // namespace millrace::virtual_cuda
