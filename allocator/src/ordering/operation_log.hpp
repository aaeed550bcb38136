#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/ordering/race_checker.hpp"
#include "ordering/clock.hpp"

namespace millrace::ordering {

using Actor = RaceChecker::Actor;

/** Names an actor in messages; outlives the actor. */
struct Label {
  enum class Kind { stream, thread, callback } kind = Kind::thread;
  std::string name;
  std::string stream;  // only for a callback
};

/** One run of a callback. */
struct CallbackRun {
  Actor actor = 0;
  std::uint64_t run = 0;
  friend bool operator==(const CallbackRun&, const CallbackRun&) = default;
};

// A callback's operations are numbered within its run. Later work of its stream can therefore be
// ordered after all of them before any of them is reported.
constexpr std::uint64_t first_of_run(std::uint64_t run) { return run << 32; }
constexpr std::uint64_t last_of_run(std::uint64_t run) { return (run << 32) | 0xffff'ffff; }
constexpr std::uint64_t run_of(std::uint64_t count) { return count >> 32; }

/** An operation, as long as one of its accesses matters. */
struct Op {
  RaceChecker::OpIndex index = 0;
  std::string name;
  Actor actor = 0;
  std::uint64_t count = 0;
  Actor thread = 0;  // the actor that enqueued it, and that actor's count at the call
  std::uint64_t thread_count = 0;
  std::vector<CallbackRun> behind;  // unfinished callback runs that it comes after
  std::shared_ptr<const Label> label, thread_label;
};

/** An operation with its clocks, while its accesses are being reported. */
struct CurrentOp {
  std::shared_ptr<const Op> op;
  Clock clock;       // all that happens before it
  Clock host_clock;  // all that happens before the call that enqueued it
};

}  // namespace millrace::ordering
