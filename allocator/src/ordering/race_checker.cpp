#include "millrace/ordering/race_checker.hpp"

#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "ordering/access_history.hpp"
#include "ordering/actors.hpp"
#include "ordering/race_message.hpp"

namespace millrace {

using ordering::Address;
using ordering::Allocation;
using ordering::Cell;
using ordering::Clock;
using ordering::CurrentOp;
using ordering::Label;
using ordering::Op;
using ordering::PastAccess;

struct RaceChecker::State {
  ordering::Actors actors;
  ordering::AccessHistory history;
  std::map<Address, std::shared_ptr<Allocation>> live;
  std::vector<Race> races;
  std::set<std::pair<OpIndex, OpIndex>> reported;
  OpIndex operations = 0;
  std::size_t sweep_from = 1024;

  Op next_op(std::string_view name) {
    Op op;
    op.index = ++operations;
    op.name = name;
    return op;
  }

  template <typename Message>
  void report(RaceKind kind, const Op& first, const Op& second, Message message) {
    if (!reported.emplace(first.index, second.index).second) return;
    races.push_back({kind, first.index, second.index, message(), first.name, second.name});
  }

  void touch(const CurrentOp& now, Cell& cell, bool write);
  void check_lifetime(const CurrentOp& now, const Cell& cell);
  void require_free(Address begin, Address end) const;
  std::shared_ptr<Allocation> add_live(Address begin, std::size_t bytes);
  std::shared_ptr<Allocation> take_live(Address begin);
  void check_calls(const CurrentOp& free, const Allocation& allocation, const Cell& cell);
  OpIndex allocate(Address begin, std::size_t bytes, Op call, Actor thread,
                   const Clock& user_follows, const Label* user);
  void sweep();
};

namespace {

RaceChecker::RaceKind kind_of(bool first_writes, bool second_writes) {
  if (!first_writes) return RaceChecker::RaceKind::write_after_read;
  return second_writes ? RaceChecker::RaceKind::write_after_write
                       : RaceChecker::RaceKind::read_after_write;
}

Address address_of(const void* pointer) { return reinterpret_cast<Address>(pointer); }

}  // namespace

void RaceChecker::State::check_lifetime(const CurrentOp& now, const Cell& cell) {
  if (cell.allocation == nullptr) return;
  if (const Op* free = cell.allocation->freed.get()) {
    report(RaceKind::use_after_free, *free, *now.op,
           [&] { return use_after_free_message(*free, *now.op); });
    return;
  }
  const Op& allocation = *cell.allocation->allocated;
  if (now.clock.at(allocation.actor) >= allocation.count) return;
  report(RaceKind::use_before_allocate, allocation, *now.op,
         [&] { return use_before_allocate_message(allocation, *now.op); });
}

// Decides which past accesses of the bytes are kept. `now` dominates `past` if every later
// operation that is not ordered with `past` is not ordered with `now` either. Then `now` can
// replace `past` if each access that conflicts with `past` also conflicts with `now`:
//   - a write conflicts with reads and writes, so it replaces dominated reads and writes;
//   - a read conflicts with writes only, so it replaces dominated reads. Writes stay: a later read
//     may race with them, but not with `now`.
// So every racy program is reported, although the message may name a later access of the pair. An
// access that repeats one of the same operation is not added.
void RaceChecker::State::touch(const CurrentOp& now, Cell& cell, bool write) {
  check_lifetime(now, cell);
  bool known = false;
  for (const PastAccess& past : cell.accesses) {
    known = known || (past.op == now.op && (past.write || !write));
    if ((!past.write && !write) || actors.ordered(*past.op, now)) continue;
    const bool reused = past.allocation != cell.allocation;
    report(reused ? RaceKind::early_reuse : kind_of(past.write, write), *past.op, *now.op,
           [&] { return conflict_message(*past.op, *now.op); });
  }
  if (known) return;
  std::erase_if(cell.accesses, [&](const PastAccess& past) {
    return (write || !past.write) && actors.dominates(now, *past.op);
  });
  cell.accesses.push_back({now.op, write, cell.allocation});
}

void RaceChecker::State::require_free(Address begin, Address end) const {
  const auto above = live.lower_bound(begin);
  if ((above != live.end() && (above->first < end || above->first == begin)) ||
      (above != live.begin() && std::prev(above)->second->end > begin)) {
    throw std::invalid_argument{"RaceChecker: part of this memory is allocated already"};
  }
}

std::shared_ptr<Allocation> RaceChecker::State::add_live(Address begin, std::size_t bytes) {
  const Address end = begin + bytes;
  require_free(begin, end);
  return live[begin] = std::make_shared<Allocation>(Allocation{begin, end, nullptr, nullptr});
}

std::shared_ptr<Allocation> RaceChecker::State::take_live(Address begin) {
  const auto it = live.find(begin);
  if (it == live.end()) {
    throw std::invalid_argument{"RaceChecker: nothing is allocated at this address"};
  }
  std::shared_ptr<Allocation> allocation = std::move(it->second);
  live.erase(it);
  return allocation;
}

// The calls that enqueued the uses must happen before the call that frees.
void RaceChecker::State::check_calls(const CurrentOp& free, const Allocation& allocation,
                                     const Cell& cell) {
  for (const PastAccess& past : cell.accesses) {
    const Op& use = *past.op;
    if (past.allocation.get() != &allocation) continue;
    if (free.host_clock.at(use.thread) >= use.thread_count) continue;
    report(RaceKind::use_after_free, use, *free.op,
           [&] { return use_beside_free_message(use, *free.op); });
  }
}

RaceChecker::OpIndex RaceChecker::State::allocate(Address begin, std::size_t bytes, Op call,
                                                  Actor thread, const Clock& user_follows,
                                                  const Label* user) {
  const auto allocation = add_live(begin, bytes);
  const auto op = actors.host_operation(thread, std::move(call)).op;
  allocation->allocated = op;
  history.visit(begin, begin + bytes, [&](Cell& cell) {
    for (const PastAccess& past : cell.accesses) {
      if (user == nullptr || user_follows.at(past.op->actor) >= past.op->count) continue;
      report(RaceKind::early_reuse, *past.op, *op,
             [&] { return early_reuse_message(*past.op, *op, *user); });
    }
    cell.allocation = allocation;
  });
  return op->index;
}

// Drops accesses that every host thread and every running callback follows: all that they enqueue
// from now on comes after those accesses. A sweep visits the whole history. It runs when the
// history is twice as large as after the last sweep, so the cost is amortized O(1) for each access.
void RaceChecker::State::sweep() {
  const Clock known = actors.known_to_all();
  history.drop_if(
      [&](const PastAccess& past) { return known.at(past.op->actor) >= past.op->count; });
  std::unordered_set<Actor> used;
  history.for_each_op([&](const Op& op) {
    used.insert(op.actor);
    used.insert(op.thread);
  });
  actors.reuse(used);
  std::erase_if(reported, [&](const auto& pair) { return !actors.is_current(pair.second); });
  sweep_from = 2 * history.size() + 1024;
}

RaceChecker::RaceChecker() : state_(std::make_unique<State>()) {}
RaceChecker::~RaceChecker() = default;
RaceChecker::RaceChecker(RaceChecker&&) noexcept = default;
RaceChecker& RaceChecker::operator=(RaceChecker&&) noexcept = default;

RaceChecker::Actor RaceChecker::add_stream(std::string name, bool blocking, bool legacy,
                                           unsigned device) {
  if (state_->actors.wants_reuse()) state_->sweep();
  return state_->actors.add_stream(std::move(name), blocking && !legacy, legacy, device);
}

RaceChecker::Actor RaceChecker::add_thread(std::string name) {
  return state_->actors.add_thread(std::move(name));
}

void RaceChecker::remove_stream(Actor stream) { state_->actors.remove_stream(stream); }
void RaceChecker::remove_thread(Actor thread) { state_->actors.remove_thread(thread); }

RaceChecker::OpIndex RaceChecker::enqueue(Actor stream, Actor thread, std::string_view name) {
  return state_->actors.enqueue(stream, thread, state_->next_op(name)).op->index;
}

RaceChecker::OpIndex RaceChecker::host_operation(Actor thread, std::string_view name) {
  return state_->actors.host_operation(thread, state_->next_op(name)).op->index;
}

void RaceChecker::access(OpIndex op, const void* address, std::size_t bytes, Access kind) {
  const CurrentOp& now = state_->actors.current(op);
  if (bytes == 0) return;
  const Address begin = address_of(address);
  state_->history.visit(begin, begin + bytes,
                        [&](Cell& cell) { state_->touch(now, cell, kind == Access::write); });
  if (state_->history.size() >= state_->sweep_from) state_->sweep();
}

void RaceChecker::record(EventKey event, Actor stream, Actor thread) {
  state_->actors.record(event, stream, thread);
}

void RaceChecker::wait(Actor stream, EventKey event, Actor thread) {
  state_->actors.wait(stream, event, thread);
}

void RaceChecker::meet(std::uint64_t meeting, std::size_t parties, Actor stream) {
  state_->actors.meet(meeting, parties, stream);
}

void RaceChecker::event_synchronized(EventKey event, Actor thread) {
  state_->actors.event_synchronized(event, thread);
}

void RaceChecker::stream_synchronized(Actor stream, Actor thread) {
  state_->actors.stream_synchronized(stream, thread);
}

void RaceChecker::device_synchronized(Actor thread, unsigned device) {
  state_->actors.device_synchronized(thread, device);
}

void RaceChecker::forget_event(EventKey event) { state_->actors.forget_event(event); }

RaceChecker::Actor RaceChecker::begin_callback(Actor stream, Actor thread, std::string_view name) {
  return state_->actors.begin_callback(stream, thread, std::string{name});
}

void RaceChecker::end_callback(Actor callback) { state_->actors.end_callback(callback); }

void RaceChecker::release(Actor thread, std::uint64_t object) {
  state_->actors.release(thread, object);
}

void RaceChecker::acquire(Actor thread, std::uint64_t object) {
  state_->actors.acquire(thread, object);
}

RaceChecker::OpIndex RaceChecker::allocated(const void* address, std::size_t bytes, Actor user,
                                            Actor thread, std::string_view name) {
  const Clock follows = state_->actors.next_operation(user, thread);
  return state_->allocate(address_of(address), bytes, state_->next_op(name), thread, follows,
                          state_->actors.label(user).get());
}

RaceChecker::OpIndex RaceChecker::allocated_for_any(const void* address, std::size_t bytes,
                                                    Actor thread, std::string_view name) {
  return state_->allocate(address_of(address), bytes, state_->next_op(name), thread, {}, nullptr);
}

RaceChecker::OpIndex RaceChecker::allocated_for_host(const void* address, std::size_t bytes,
                                                     Actor thread, std::string_view name) {
  return allocated(address, bytes, thread, thread, name);
}

void RaceChecker::aliased(const void* to, const void* from, std::size_t bytes) {
  const Address begin = address_of(to);
  state_->require_free(begin, begin + bytes);
  state_->history.copy(begin, address_of(from), bytes);
}

void RaceChecker::forget(const void* address, std::size_t bytes) {
  const Address begin = address_of(address);
  state_->require_free(begin, begin + bytes);
  if (bytes != 0) state_->history.erase(begin, begin + bytes);
}

RaceChecker::OpIndex RaceChecker::freed(const void* address, Actor thread, std::string_view name) {
  const auto allocation = state_->take_live(address_of(address));
  const CurrentOp& now = state_->actors.host_operation(thread, state_->next_op(name));
  allocation->freed = now.op;
  state_->history.visit(allocation->begin, allocation->end,
                        [&](const Cell& cell) { state_->check_calls(now, *allocation, cell); });
  return now.op->index;
}

RaceChecker::OpIndex RaceChecker::pool_allocated(const void* address, std::size_t bytes,
                                                 Actor stream, Actor thread,
                                                 std::string_view name) {
  const auto allocation = state_->add_live(address_of(address), bytes);
  const auto op = state_->actors.enqueue(stream, thread, state_->next_op(name)).op;
  allocation->allocated = op;
  state_->history.visit(allocation->begin, allocation->end, [&](Cell& cell) {
    cell.accesses.clear();
    cell.allocation = allocation;
  });
  return op->index;
}

RaceChecker::OpIndex RaceChecker::pool_freed(const void* address, Actor stream, Actor thread,
                                             std::string_view name) {
  const auto allocation = state_->take_live(address_of(address));
  const CurrentOp& now = state_->actors.enqueue(stream, thread, state_->next_op(name));
  allocation->freed = now.op;
  state_->history.visit(allocation->begin, allocation->end, [&](Cell& cell) {
    state_->check_calls(now, *allocation, cell);
    for (const PastAccess& past : cell.accesses) {
      if (past.allocation != allocation || state_->actors.ordered(*past.op, now)) continue;
      state_->report(RaceKind::use_after_free, *past.op, *now.op,
                     [&] { return conflict_message(*past.op, *now.op); });
    }
    cell.accesses.clear();
  });
  return now.op->index;
}

const std::vector<RaceChecker::Race>& RaceChecker::races() const noexcept { return state_->races; }

std::vector<RaceChecker::Race> RaceChecker::take_races() {
  return std::exchange(state_->races, {});
}

void RaceChecker::forget_dominated() { state_->sweep(); }

std::size_t RaceChecker::history_size() const noexcept { return state_->history.size(); }

const char* to_string(RaceChecker::RaceKind kind) noexcept {
  switch (kind) {
    case RaceChecker::RaceKind::read_after_write:
      return "read after write";
    case RaceChecker::RaceKind::write_after_read:
      return "write after read";
    case RaceChecker::RaceKind::write_after_write:
      return "write after write";
    case RaceChecker::RaceKind::early_reuse:
      return "early reuse";
    case RaceChecker::RaceKind::use_after_free:
      return "use after free";
    default:
      return "use before allocate";
  }
}

}  // namespace millrace
