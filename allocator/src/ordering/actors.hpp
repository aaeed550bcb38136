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

struct ActorState {
  std::shared_ptr<const Label> label;
  bool alive = true;
  Clock clock;
  CurrentOp current;
  // Streams.
  bool blocking = false, legacy = false;
  unsigned device = 0;
  std::vector<Actor> callbacks;
  // Callbacks.
  Actor stream = 0;
  bool running = false;  // enqueued and not ended
};

/** The vector clocks of all actors, and every edge between them. */
class Actors {
 public:
  Actor add_stream(std::string name, bool blocking, bool legacy, unsigned device);
  Actor add_thread(std::string name);
  void remove_stream(Actor stream);
  void remove_thread(Actor thread);

  /** The next operation of `stream` or `thread`, current from now on. */
  const CurrentOp& enqueue(Actor stream, Actor thread, Op op);
  const CurrentOp& host_operation(Actor thread, Op op);
  /** The current operation with this index. */
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

  /** What an operation that `thread` enqueued on `stream` now would follow. */
  [[nodiscard]] Clock next_operation(Actor stream, Actor thread) const;
  [[nodiscard]] const std::shared_ptr<const Label>& label(Actor actor) const;

  /** Whether `first`, which was reported earlier, is ordered with `second` in either direction. */
  [[nodiscard]] bool ordered(const Op& first, const CurrentOp& second) const;
  /** Whether an operation that is not ordered with `past` is not ordered with `now` either. */
  [[nodiscard]] bool dominates(const CurrentOp& now, const Op& past) const;

  /** What every host actor, and so all that is still to come, follows. */
  [[nodiscard]] Clock known_to_all() const;
  [[nodiscard]] bool wants_reuse() const noexcept { return removed_ >= reuse_from_; }
  /** Numbers of removed actors outside `used` are given out again. */
  void reuse(const std::unordered_set<Actor>& used);

 private:
  /** Streams whose operations form a meeting, as far as reported. */
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
