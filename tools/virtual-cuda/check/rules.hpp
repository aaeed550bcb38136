#pragma once

#include "millrace/ordering/race_checker.hpp"

namespace millrace::virtual_cuda {

/** @brief The rules of this checker. All hold, except in the build of the mutation tests. */
enum class Rule {
  callers_tell_calls_apart,
  const_is_read,
  declared_accesses,
  graph_end,
  graph_launches,
  graph_nodes,
  graph_waits,
  gaps_between_rows,
  host_functions,
  kernels_to_the_end,
  mappings_adjoin,
  memory_is_forgotten,
  nothing_outside,
  nothing_twice,
  pairs_once,
  within_bounds,
};

}  // namespace millrace::virtual_cuda

// The mutation tests disable one of these rules, or break one of the race checker's.
#ifdef MILLRACE_FLAWED_CHECKER
#include "test/virtual_cuda/mutations/flawed.hpp"
#else
namespace millrace::virtual_cuda {
using Races = RaceChecker;
[[nodiscard]] constexpr bool holds(Rule) noexcept { return true; }
}  // namespace millrace::virtual_cuda
#endif
