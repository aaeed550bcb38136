#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::ordering {

#if defined(MILLRACE_COUNT_STEPS)  // where tests are built; elsewhere counting costs nothing

/**
 * Number of entries that the calling thread inspected or moved in loops of the ledger and of the
 * allocator. Tests compare it with bounds.
 */
inline thread_local constinit std::uint64_t steps_of_this_thread = 0;

inline void count_steps(std::size_t steps) noexcept { steps_of_this_thread += steps; }

#else

inline void count_steps(std::size_t) noexcept {}

#endif

}  // namespace millrace::ordering
