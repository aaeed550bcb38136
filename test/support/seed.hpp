#pragma once

#include <cstdint>

namespace millrace::test {

/// Returns the seed of this run: MILLRACE_SEED, or 1. RapidCheck draws from it too. Every failure
/// prints it, so that MILLRACE_SEED=N repeats the run. MILLRACE_PROGRAMS sets the number of cases
/// of each property (default 100).
/// @throws std::invalid_argument if MILLRACE_SEED is not a number
[[nodiscard]] std::uint64_t seed();

}  // namespace millrace::test
