#pragma once

#include <cstdint>

#include "ordering/steps.hpp"

namespace millrace::test {

/// Returns the number of entries that loops of the ledger and the allocator visit in `body`.
template <typename Body>
std::uint64_t steps(Body body) {
  const std::uint64_t before = ordering::steps_of_this_thread;
  body();
  return ordering::steps_of_this_thread - before;
}

}  // namespace millrace::test
