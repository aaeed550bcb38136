#include "ordering/actors.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace millrace::ordering {

using Kind = Label::Kind;

namespace {

std::shared_ptr<const Label> make_label(Kind kind, std::string name, std::string stream = {}) {
  return std::make_shared<const Label>(Label{kind, std::move(name), std::move(stream)});
}

}  // namespace

// A number is given to a new actor only after nothing that its former actor did matters anymore.
// Counts continue from the former actor's, so clocks that include the former actor say nothing
// about the new one.
Actor Actors::add(ActorState state) {
  if (free_.empty()) {
    actors_.push_back(std::move(state));
    return static_cast<Actor>(actors_.size() - 1);
  }
  const Actor actor = free_.back();
  free_.pop_back();
  state.clock.set(actor, actors_[actor].clock.at(actor));
  actors_[actor] = std::move(state);
  return actor;
}

Actor Actors::add_stream(std::string name, bool blocking, bool legacy, unsigned device) {
  const auto is_legacy = [&](const ActorState& s) {
    return s.alive && s.legacy && s.device == device;
  };
  if (legacy && std::ranges::any_of(actors_, is_legacy)) {
    throw std::invalid_argument{"RaceChecker: the device has a legacy stream already"};
  }
  ActorState state;
  state.label = make_label(Kind::stream, std::move(name));
  state.blocking = blocking;
  state.legacy = legacy;
  state.device = device;
  return add(std::move(state));
}

Actor Actors::add_thread(std::string name) {
  ActorState state;
  state.label = make_label(Kind::thread, std::move(name));
  return add(std::move(state));
}

void Actors::remove_stream(Actor actor) {
  ActorState& s = stream(actor);
  s.alive = false;
  removed_streams_[s.device].join(s.clock);
  ++removed_;
  for (const Actor callback : s.callbacks) {
    if (actors_[callback].running) continue;
    actors_[callback].alive = false;
    ++removed_;
  }
}

void Actors::remove_thread(Actor actor) {
  if (thread(actor).label->kind == Kind::callback) {
    throw std::invalid_argument{"RaceChecker: a callback is ended, not removed"};
  }
  thread(actor).alive = false;
  ++removed_;
}

const ActorState& Actors::get(Actor actor) const {
  if (actor >= actors_.size() || !actors_[actor].alive) {
    throw std::invalid_argument{"RaceChecker: the actor does not exist"};
  }
  return actors_[actor];
}

ActorState& Actors::stream(Actor actor) {
  if (get(actor).label->kind != Kind::stream) {
    throw std::invalid_argument{"RaceChecker: this actor is not a stream"};
  }
  return actors_[actor];
}

ActorState& Actors::thread(Actor actor) {
  const ActorState& state = get(actor);
  if (state.label->kind == Kind::stream ||
      (state.label->kind == Kind::callback && !state.running)) {
    throw std::invalid_argument{"RaceChecker: this actor is not a thread or running callback"};
  }
  return actors_[actor];
}

const std::shared_ptr<const Label>& Actors::label(Actor actor) const { return get(actor).label; }

void Actors::advance(Actor actor) {
  Clock& clock = actors_[actor].clock;
  clock.set(actor, clock.at(actor) + 1);
}

void Actors::join_implicit(Clock& clock, const ActorState& stream) const {
  if (!stream.legacy && !stream.blocking) return;
  for (const ActorState& other : actors_) {
    if (!other.alive || other.label->kind != Kind::stream || other.device != stream.device)
      continue;
    if (stream.legacy ? other.blocking : other.legacy) clock.join(other.clock);
  }
}

// Joins into stream `on` what thread `by` had done, for a call of the thread on the stream.
ActorState& Actors::act(Actor on, Actor by) {
  ActorState& s = stream(on);
  ActorState& t = thread(by);
  advance(by);
  s.clock.join(t.clock);
  join_implicit(s.clock, s);
  return s;
}

Clock Actors::next_operation(Actor on, Actor by) const {
  Clock clock = get(on).clock;
  clock.join(get(by).clock);
  join_implicit(clock, get(on));
  return clock;
}

std::vector<CallbackRun> Actors::running_before(const Clock& clock) const {
  std::vector<CallbackRun> before;
  for (const CallbackRun& r : running_) {
    if (clock.at(r.actor) >= last_of_run(r.run)) before.push_back(r);
  }
  return before;
}

const CurrentOp& Actors::make_current(ActorState& actor, Op op, const ActorState& thread) {
  op.count = actor.clock.at(op.actor);
  op.thread_count = thread.clock.at(op.thread);
  op.behind = running_before(actor.clock);
  op.label = actor.label;
  op.thread_label = thread.label;
  if (actor.current.op != nullptr) current_.erase(actor.current.op->index);
  current_[op.index] = op.actor;
  actor.current = {std::make_shared<const Op>(std::move(op)), actor.clock, thread.clock};
  return actor.current;
}

const CurrentOp& Actors::enqueue(Actor on, Actor by, Op op) {
  ActorState& s = act(on, by);
  advance(on);
  op.actor = on;
  op.thread = by;
  return make_current(s, std::move(op), actors_[by]);
}

const CurrentOp& Actors::host_operation(Actor by, Op op) {
  ActorState& t = thread(by);
  advance(by);
  op.actor = op.thread = by;
  return make_current(t, std::move(op), t);
}

const CurrentOp& Actors::current(RaceChecker::OpIndex op) const {
  const auto it = current_.find(op);
  if (it == current_.end()) {
    throw std::invalid_argument{"RaceChecker: not the latest operation of any actor"};
  }
  return actors_[it->second].current;
}

void Actors::record(RaceChecker::EventKey event, Actor on, Actor by) {
  events_[event] = act(on, by).clock;
}

void Actors::wait(Actor on, RaceChecker::EventKey event, Actor by) {
  ActorState& s = act(on, by);
  if (const auto it = events_.find(event); it != events_.end()) s.clock.join(it->second);
}

// Skips a removed stream, and one whose number was reused: it has no future operations to order.
void Actors::meet(std::uint64_t key, std::size_t parties, Actor on) {
  Meeting& meeting = meetings_[key];
  meeting.clock.join(stream(on).clock);
  meeting.streams.emplace_back(on, actors_[on].label);
  for (const auto& [party, label] : meeting.streams) {
    ActorState& s = actors_[party];
    if (s.alive && s.label == label) s.clock.join(meeting.clock);
  }
  if (meeting.streams.size() == parties) meetings_.erase(key);
}

void Actors::event_synchronized(RaceChecker::EventKey event, Actor by) {
  ActorState& t = thread(by);
  if (const auto it = events_.find(event); it != events_.end()) t.clock.join(it->second);
}

void Actors::stream_synchronized(Actor on, Actor by) { thread(by).clock.join(stream(on).clock); }

void Actors::device_synchronized(Actor by, unsigned device) {
  Clock& clock = thread(by).clock;
  for (const ActorState& s : actors_) {
    if (s.alive && s.label->kind == Kind::stream && s.device == device) clock.join(s.clock);
  }
  clock.join(removed_streams_[device]);
}

// The run takes all counts up to `last_of_run` at once. Later work of the stream is thereby ordered
// after operations that the callback has not reported yet.
Actor Actors::begin_callback(Actor on, Actor by, std::string name) {
  const Clock before = act(on, by).clock;
  const auto& known = actors_[on].callbacks;
  const auto idle =
      std::ranges::find_if(known, [&](Actor callback) { return !actors_[callback].running; });
  Actor callback = 0;
  if (idle != known.end()) {
    callback = *idle;
  } else {
    callback = add({});
    actors_[on].callbacks.push_back(callback);
  }
  ActorState& state = actors_[callback];
  const std::uint64_t run = run_of(state.clock.at(callback)) + 1;
  state.label = make_label(Kind::callback, std::move(name), actors_[on].label->name);
  state.stream = on;
  state.running = true;
  state.clock = before;
  state.clock.set(callback, first_of_run(run));
  actors_[on].clock.set(callback, last_of_run(run));
  running_.push_back({callback, run});
  return callback;
}

void Actors::end_callback(Actor actor) {
  ActorState& callback = thread(actor);
  if (callback.label->kind != Kind::callback) {
    throw std::invalid_argument{"RaceChecker: this actor is not a callback"};
  }
  std::erase_if(running_, [&](const CallbackRun& r) { return r.actor == actor; });
  callback.running = false;
  callback.clock.set(actor, last_of_run(run_of(callback.clock.at(actor))));
  ActorState& s = actors_[callback.stream];
  if (s.alive) {
    s.clock.join(callback.clock);
  } else {
    removed_streams_[s.device].join(callback.clock);
    callback.alive = false;
    ++removed_;
  }
}

void Actors::release(Actor by, std::uint64_t object) { objects_[object].join(thread(by).clock); }

void Actors::acquire(Actor by, std::uint64_t object) {
  ActorState& t = thread(by);
  if (const auto it = objects_.find(object); it != objects_.end()) t.clock.join(it->second);
}

bool Actors::ordered(const Op& first, const CurrentOp& second) const {
  if (second.clock.at(first.actor) >= first.count) return true;
  const CallbackRun run{second.op->actor, run_of(second.op->count)};
  return std::ranges::find(first.behind, run) != first.behind.end();
}

// Order on the device is not enough for two reasons. A free checks that the call which enqueued a
// use came before it, so `now` must follow that call too. And an operation of a callback that still
// runs may come before `now` although it is not ordered with `past`.
bool Actors::dominates(const CurrentOp& now, const Op& past) const {
  if (now.clock.at(past.actor) < past.count) return false;
  if (now.host_clock.at(past.thread) < past.thread_count) return false;
  return std::ranges::all_of(now.op->behind, [&](const CallbackRun& r) {
    return std::ranges::find(running_, r) == running_.end() ||
           actors_[r.actor].clock.at(past.actor) >= past.count ||
           std::ranges::find(past.behind, r) != past.behind.end();
  });
}

Clock Actors::known_to_all() const {
  const ActorState* first = nullptr;
  Clock known;
  for (const ActorState& a : actors_) {
    const bool host = a.label->kind == Kind::thread || a.running;
    if (!a.alive || !host) continue;
    if (std::exchange(first, &a) == nullptr) {
      known = a.clock;
    } else {
      known.meet(a.clock);
    }
  }
  return known;
}

void Actors::reuse(const std::unordered_set<Actor>& used) {
  std::unordered_set<Actor> keep = used;
  keep.insert(free_.begin(), free_.end());
  for (const ActorState& a : actors_) {
    if (a.running) keep.insert(a.stream);
  }
  for (Actor actor = 0; actor < actors_.size(); ++actor) {
    ActorState& a = actors_[actor];
    if (a.alive || keep.contains(actor)) continue;
    if (a.current.op != nullptr) current_.erase(a.current.op->index);
    a.current = {};
    a.callbacks.clear();
    free_.push_back(actor);
    --removed_;
  }
  reuse_from_ = 2 * removed_ + 64;
}

}  // namespace millrace::ordering
