#pragma once

#include <cstdint>

namespace millrace::test {

/// The seed of this run: MILLRACE_SEED, or 1. RapidCheck draws from it too, and it is printed with
/// every failure, so that MILLRACE_SEED=N repeats the run. MILLRACE_PROGRAMS sets on how many cases
/// each property is tried, in place of 100.
/// @throws std::invalid_argument if MILLRACE_SEED is not a number
[[nodiscard]] std::uint64_t seed();

}  // namespace millrace::test
