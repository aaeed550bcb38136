#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::ordering {

/** Entries that the calling thread looked at or moved in loops of the ledger: tests hold them to
 * bounds. */
inline thread_local constinit std::uint64_t steps_of_this_thread = 0;

inline void count_steps(std::size_t steps) noexcept { steps_of_this_thread += steps; }

}  // namespace millrace::ordering
