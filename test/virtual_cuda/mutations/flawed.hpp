#pragma once

#include <string_view>

#include "millrace/ordering/race_checker.hpp"

/// @file
/// The checker of the mutation tests has the flaw that MILLRACE_CHECKER_FLAW names; "none" is no
/// flaw. check/rules.hpp includes this file in the build of these tests.

namespace millrace::virtual_cuda {

/** True if the checker has this flaw. */
[[nodiscard]] bool has_flaw(std::string_view name);
/** True if this rule of the checker holds. */
[[nodiscard]] bool holds(Rule rule);

/** A race checker that a flaw gives wrong information about the program. */
class Races : public RaceChecker {
 public:
  [[nodiscard]] Actor add_stream(std::string name, bool blocking = true, bool legacy = false,
                                 unsigned device = 0);
  OpIndex enqueue(Actor stream, Actor thread, std::string_view name);
  void access(OpIndex op, const void* address, std::size_t bytes, Access kind);
  void record(EventKey event, Actor stream, Actor thread);
  void wait(Actor stream, EventKey event, Actor thread);
  void event_synchronized(EventKey event, Actor thread);
  void stream_synchronized(Actor stream, Actor thread);
  void device_synchronized(Actor thread, unsigned device = 0);
  OpIndex allocated(const void* address, std::size_t bytes, Actor user, Actor thread,
                    std::string_view name);
  OpIndex pool_freed(const void* address, Actor stream, Actor thread, std::string_view name);
};

}  // namespace millrace::virtual_cuda
