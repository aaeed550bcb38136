#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ordering/operation_log.hpp"

namespace millrace::ordering {

/** A stream, a host thread or a host callback. `current` is its latest operation. */
struct ActorState {
  std::shared_ptr<const Label> label;
  bool alive = true;
  Clock clock;
  CurrentOp current;
  // Only for streams.
  bool blocking = false, legacy = false;
  unsigned device = 0;
  std::vector<Actor> callbacks;
  // Only for callbacks.
  Actor stream = 0;
  bool running = false;  // enqueued and not ended
};

/** Keeps the vector clocks of all actors, and every edge between them. */
class Actors {
 public:
  Actor add_stream(std::string name, bool blocking, bool legacy, unsigned device);
  Actor add_thread(std::string name);
  void remove_stream(Actor stream);
  void remove_thread(Actor thread);

  /** Begins the next operation of `stream`. It stays current until the stream's next operation. */
  const CurrentOp& enqueue(Actor stream, Actor thread, Op op);
  /** Begins the next operation of `thread`, in the same way. */
  const CurrentOp& host_operation(Actor thread, Op op);
  /**
   * Returns the current operation with this index. Throws std::invalid_argument if it is not
   * current.
   */
  [[nodiscard]] const CurrentOp& current(RaceChecker::OpIndex op) const;

  [[nodiscard]] bool is_current(RaceChecker::OpIndex op) const { return current_.contains(op); }

  void record(RaceChecker::EventKey event, Actor stream, Actor thread);
  void wait(Actor stream, RaceChecker::EventKey event, Actor thread);
  void meet(std::uint64_t meeting, std::size_t parties, Actor stream);
  void event_synchronized(RaceChecker::EventKey event, Actor thread);
  void stream_synchronized(Actor stream, Actor thread);
  void device_synchronized(Actor thread, unsigned device);
  void forget_event(RaceChecker::EventKey event) { events_.erase(event); }
  Actor begin_callback(Actor stream, Actor thread, std::string name);
  void end_callback(Actor callback);
  void release(Actor thread, std::uint64_t object);
  void acquire(Actor thread, std::uint64_t object);

  /** Returns the clock that an operation enqueued by `thread` on `stream` now would have. */
  [[nodiscard]] Clock next_operation(Actor stream, Actor thread) const;
  [[nodiscard]] const std::shared_ptr<const Label>& label(Actor actor) const;

  /**
   * Returns whether `first`, which was reported earlier, is ordered with `second` in either
   * direction.
   */
  [[nodiscard]] bool ordered(const Op& first, const CurrentOp& second) const;
  /**
   * Returns whether each operation that is not ordered with `past` is not ordered with `now`
   * either.
   */
  [[nodiscard]] bool dominates(const CurrentOp& now, const Op& past) const;

  /**
   * Returns what every live host actor follows. All operations that are still to come follow it
   * too.
   */
  [[nodiscard]] Clock known_to_all() const;
  [[nodiscard]] bool wants_reuse() const noexcept { return removed_ >= reuse_from_; }
  /** Makes the numbers of removed actors available to new actors, except those in `used`. */
  void reuse(const std::unordered_set<Actor>& used);

 private:
  /** A meeting of which some parts were reported; `clock` joins the clocks of their streams. */
  struct Meeting {
    Clock clock;
    std::vector<std::pair<Actor, std::shared_ptr<const Label>>> streams;
  };

  Actor add(ActorState state);
  ActorState& stream(Actor actor);
  ActorState& thread(Actor actor);
  [[nodiscard]] const ActorState& get(Actor actor) const;
  void advance(Actor actor);
  ActorState& act(Actor stream, Actor thread);
  void join_implicit(Clock& clock, const ActorState& stream) const;
  std::vector<CallbackRun> running_before(const Clock& clock) const;
  const CurrentOp& make_current(ActorState& actor, Op op, const ActorState& thread);

  std::vector<ActorState> actors_;
  std::vector<Actor> free_;
  std::size_t removed_ = 0, reuse_from_ = 64;
  std::vector<CallbackRun> running_;
  std::unordered_map<RaceChecker::EventKey, Clock> events_;
  std::unordered_map<std::uint64_t, Clock> objects_;
  std::unordered_map<std::uint64_t, Meeting> meetings_;
  std::unordered_map<unsigned, Clock> removed_streams_;  // by device
  std::unordered_map<RaceChecker::OpIndex, Actor> current_;
};

}  // namespace millrace::ordering
