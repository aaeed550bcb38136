#pragma once

#include <string_view>

#include "millrace/ordering/race_checker.hpp"

/// @file
/// The checker of the mutation tests has the flaw that MILLRACE_CHECKER_FLAW names; "none" is none.
/// check/rules.hpp includes this in their build.

namespace millrace::virtual_cuda {

/** Whether the checker has this flaw. */
[[nodiscard]] bool has_flaw(std::string_view name);
/** Whether a rule of the checker's own holds. */
[[nodiscard]] bool holds(Rule rule);

/** A race checker that is told something else than what happens, if it has a flaw. */
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
