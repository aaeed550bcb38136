#include "device/virtual/actors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

namespace millrace::simulation {
namespace {

// The time that `yield` charges, so that a loop that only yields lets other actors run.
constexpr Nanoseconds kYield{100};

std::atomic<std::uint64_t> machines_made{0};

/** One machine in which the calling thread is an actor. */
struct Membership {
  std::uint64_t machine;
  Actors* actors;
  Actor* actor;
};

/** All machines in which the calling thread is an actor, newest last. */
class ThreadMemberships final : public LockWaiting {
 public:
  void wait(const void* mutex) override { newest_shared().wait_for_lock(mutex); }
  void notify(const void* mutex) override {
    for (const Membership& one : all_) one.actors->notify_lock(mutex);
  }

  void join(std::uint64_t machine, Actors& actors, Actor& actor) {
    all_.push_back({machine, &actors, &actor});
    LockWaiting::of_this_thread() = this;
  }

  void leave(std::uint64_t machine) {
    std::erase_if(all_, [&](const Membership& one) { return one.machine == machine; });
    if (all_.empty()) LockWaiting::of_this_thread() = nullptr;
  }
  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }

  [[nodiscard]] Actor* in(std::uint64_t machine) const noexcept {
    for (auto one = all_.rbegin(); one != all_.rend(); ++one) {
      if (one->machine == machine) return one->actor;
    }
    return nullptr;
  }

 private:
  Actors& newest_shared() {
    for (auto one = all_.rbegin(); one != all_.rend(); ++one) {
      if (one->actors->live().size() > 1) return *one->actors;
    }
    return *all_.back().actors;
  }

  std::vector<Membership> all_;
};

// Made by the thread's first membership and deleted with its last one. A static machine ends after
// the thread-local objects of its thread, so this cannot be an object with a destructor.
thread_local ThreadMemberships* memberships = nullptr;

void join_machine(std::uint64_t machine, Actors& actors, Actor& actor) {
  if (memberships == nullptr) memberships = new ThreadMemberships;
  memberships->join(machine, actors, actor);
}

void leave_machine(std::uint64_t machine) {
  if (memberships == nullptr) return;
  memberships->leave(machine);
  if (!memberships->empty()) return;
  delete memberships;
  memberships = nullptr;
}

}  // namespace

class Actors::SpawnedTask final : public Executor::Task {
 public:
  SpawnedTask(Actors& actors, Actor& actor) : actors_(actors), actor_(actor) {}
  ~SpawnedTask() override { actors_.join_quietly(actor_); }

  void join() override { actors_.join(actor_); }

 private:
  Actors& actors_;
  Actor& actor_;
};

class Actors::MachineCondition final : public Condition {
 public:
  explicit MachineCondition(Actors& actors) : actors_(actors) {}

  void wait(std::unique_lock<std::mutex>& lock) override {
    // Only one actor runs at a time, so no notification is lost between `unlock` and `block`.
    Actor& me = actors_.current();
    waiting_.emplace_back(&me, me.wait);
    lock.unlock();
    try {
      actors_.block(me, "a condition");
    } catch (...) {
      relock(lock);
      throw;
    }
    relock(lock);
    actors_.acquired(this);
  }

  void notify_all() override {
    actors_.released(this);
    const Nanoseconds now = actors_.current().clock;
    for (const auto& [actor, wait] : std::exchange(waiting_, {})) {
      if (actor->state == Actor::State::blocked && actor->wait == wait) actors_.wake(*actor, now);
    }
  }

 private:
  void relock(std::unique_lock<std::mutex>& lock) {
    // Waiting for the std::mutex would stop the machine if a suspended actor holds it.
    while (!lock.try_lock()) actors_.yield();
  }

  Actors& actors_;
  std::vector<std::pair<Actor*, std::uint64_t>> waiting_;
};

Actors::Actors(Picker& picker) : picker_(picker), serial_(++machines_made) {
  join_machine(serial_, *this, add("main", Nanoseconds{0}));
}

Actors::~Actors() {
  for (const auto& actor : all_) {
    if (actor->thread.joinable()) actor->thread.join();
  }
  leave_machine(serial_);
}

Actor* Actors::current_or_null() noexcept {
  return memberships == nullptr ? nullptr : memberships->in(serial_);
}

void Actors::adopt_thread() {
  if (current_or_null() == nullptr) join_machine(serial_, *this, *all_.front());
}

Actor& Actors::current() {
  if (Actor* actor = current_or_null()) return *actor;
  throw std::logic_error(
      "the calling thread is not an actor of this virtual machine; start it with executor().spawn");
}

Actor& Actors::add(std::string name, Nanoseconds clock) {
  all_.push_back(
      std::make_unique<Actor>(static_cast<unsigned>(all_.size()), std::move(name), clock));
  live_.push_back(all_.back().get());
  return *all_.back();
}

Actor& Actors::start(std::string name, std::function<void()> body, bool service) {
  Actor& actor = add(std::move(name), current().clock);
  actor.service = service;
  released(&actor);
  actor.thread = std::thread(
      [this, &actor, body = std::move(body)]() mutable { run(actor, std::move(body)); });
  return actor;
}

std::unique_ptr<Executor::Task> Actors::spawn(std::string name, std::function<void()> body) {
  return std::make_unique<SpawnedTask>(*this, start(std::move(name), std::move(body), false));
}

Actor& Actors::spawn_service(std::string name, std::function<void()> body) {
  return start(std::move(name), std::move(body), true);
}

std::unique_ptr<Condition> Actors::make_condition() {
  return std::make_unique<MachineCondition>(*this);
}

void Actors::run(Actor& actor, std::function<void()> body) {
  actor.baton.acquire();
  join_machine(serial_, *this, actor);
  try {
    const std::function<void()> owned = std::move(body);  // destroyed while the actor has the baton
    throw_pending(actor);
    acquired(&actor);
    owned();
  } catch (const ActorCanceled&) {
  } catch (...) {
    actor.error = std::current_exception();
  }
  released(&actor);
  ended();
  finish(actor);
  leave_machine(serial_);
}

void Actors::finish(Actor& actor) {
  actor.state = Actor::State::finished;
  std::erase(live_, &actor);
  for (const auto& [joiner, wait] : std::exchange(actor.joiners, {})) {
    if (joiner->state == Actor::State::blocked && joiner->wait == wait) wake(*joiner, actor.clock);
  }
  pick(actor).baton.release();
}

void Actors::throw_pending(Actor& actor) {
  if (actor.pending) std::rethrow_exception(std::exchange(actor.pending, nullptr));
}

Actor& Actors::pick(Actor& running) {
  Actor* next = picker_.next(running);
  return next != nullptr ? *next : break_deadlock();
}

void Actors::pass_baton(Actor& from) {
  Actor& next = pick(from);
  if (&next == &from) return;
  next.baton.release();
  from.baton.acquire();
}

void Actors::checkpoint() {
  Actor& me = current();
  pass_baton(me);
  throw_pending(me);
}

void Actors::charge(Nanoseconds host_time) {
  current().clock += host_time;
  checkpoint();
}

void Actors::yield() { charge(kYield); }

void Actors::block(Actor& caller, std::string waits_for) {
  caller.state = Actor::State::blocked;
  caller.waits_for = std::move(waits_for);
  pass_baton(caller);
  ++caller.wait;
  caller.awaited.clear();
  caller.awaited_left = 0;
  caller.room_on = nullptr;
  throw_pending(caller);
}

void Actors::wake(Actor& actor, Nanoseconds not_before) {
  actor.state = Actor::State::ready;
  actor.clock = std::max(actor.clock, not_before);
}

Actor& Actors::break_deadlock() {
  std::string message = "every actor waits and no device work can end:";
  Actor* first = nullptr;
  for (Actor* actor : live_) {
    if (actor->service || actor->state != Actor::State::blocked) continue;
    message += fmt::format("{} {} waits for {}{}", first == nullptr ? "" : ";", actor->name,
                           actor->waits_for, picker_.explain(*actor));
    if (first == nullptr) first = actor;
  }
  if (first == nullptr) throw std::logic_error("a virtual machine without an actor that can run");
  first->pending = std::make_exception_ptr(Deadlock(message));
  wake(*first, first->clock);
  return *first;
}

void Actors::join(Actor& actor) {
  if (actor.state != Actor::State::finished) {
    Actor& me = current();
    actor.joiners.emplace_back(&me, me.wait);
    block(me, fmt::format("the end of {}", actor.name));
  }
  acquired(&actor);
  if (actor.thread.joinable()) actor.thread.join();
  if (actor.error) std::rethrow_exception(actor.error);
}

// Called by destructors, so it must not throw. If the caller is woken by a deadlock or another
// exception, it cancels the actor. The caller gets an exception of another kind at its next
// checkpoint.
void Actors::join_quietly(Actor& actor) noexcept {
  std::exception_ptr error;
  while (actor.state != Actor::State::finished) {
    Actor& me = current();
    actor.joiners.emplace_back(&me, me.wait);
    try {
      block(me, fmt::format("the end of {}", actor.name));
    } catch (const Deadlock&) {
      cancel(actor);
    } catch (...) {
      error = std::current_exception();
      cancel(actor);
    }
  }
  if (error) current().pending = error;
  if (actor.thread.joinable()) actor.thread.join();
}

void Actors::cancel(Actor& actor) {
  if (actor.state == Actor::State::finished) return;
  actor.pending = std::make_exception_ptr(ActorCanceled{});
  wake(actor, actor.clock);
}

void Actors::cancel_all() {
  Actor& me = current();
  for (std::size_t i = 0; i < all_.size(); ++i) {  // unwinding may start others
    if (all_[i].get() == &me) continue;
    cancel(*all_[i]);
    join_quietly(*all_[i]);
  }
}

void Actors::wait_for_lock(const void* mutex) {
  Actor& me = current();
  lock_waits_.push_back({mutex, &me, me.wait});
  block(me, "a lock");
}

void Actors::notify_lock(const void* mutex) {
  const Actor* me = current_or_null();
  std::erase_if(lock_waits_, [&](const LockWait& one) {
    if (one.mutex != mutex) return false;
    if (one.actor->state == Actor::State::blocked && one.actor->wait == one.wait) {
      wake(*one.actor, me != nullptr ? me->clock : one.actor->clock);
    }
    return true;
  });
}

}  // namespace millrace::simulation
