#include "engine/engine.hpp"

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

#include "check/checker.hpp"
#include "engine/event.hpp"
#include "engine/thread.hpp"

namespace millrace::virtual_cuda {
namespace {

// Threads of the runtime block all signals, so that the program's threads receive them.
template <typename Body>
void start_thread(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread{std::move(body)}.detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void call(const HostWork& work) {
  if (work.callback != nullptr) {
    work.callback(work.stream, cudaSuccess, work.data);
  } else {
    work.function(work.data);
  }
}

struct Performer {
  void operator()(const RecordWork& record) const { note_recorded(record.event, *operation); }
  void operator()(const CopyWork& copy) const { perform(copy); }
  void operator()(const FillWork& fill) const { perform(fill); }
  void operator()(const KernelWork& kernel) const { perform(kernel, operation->device); }
  void operator()(const ConditionalWork& conditional) const { perform(conditional, operation); }
  void operator()(const AssignWork& assignment) const { perform(assignment); }
  template <typename Other>
  void operator()(const Other&) const {}

  const OperationRef& operation;
};

}  // namespace

Engine::Engine(const Settings& settings, const DeviceProfile& profile)
    : schedule_{make_schedule(*this, settings, profile)},
      deferring_{settings.mode != Mode::instant} {}

OperationRef Engine::add(Work work, unsigned device, std::uint64_t stream_id,
                         const std::vector<OperationRef>& after) {
  ++calls_;
  auto operation = std::make_shared<Operation>();
  operation->number = next_number();
  operation->stream_id = stream_id;
  operation->device = device;
  operation->work = std::move(work);
  for (const OperationRef& earlier : after)
    if (earlier && !earlier->done()) operation->after.push_back(earlier);
  pending_.emplace(operation->number, operation);
  publish_busy();
  return operation;
}

void Engine::announce(Lock& lock, const OperationRef& operation) {
  if (deferring_) start_idle_thread();
  schedule_->enqueued(lock, operation);
  while (pending_.size() > kQueueDepth) {
    const OperationRef oldest = pending_.begin()->second;
    if (!complete(lock, oldest, Patience::grace)) break;
  }
}

OperationRef Engine::add_within(Work work, unsigned device,
                                const std::vector<OperationRef>& after) {
  OperationRef operation = add(std::move(work), device, 0, after);
  schedule_->plan(operation);
  return operation;
}

void Engine::delay(Operation& later, const OperationRef& earlier) {
  // A loop delays its end at each pass. Without this, the list would grow with the passes.
  std::erase_if(later.after, [](const OperationRef& known) { return known->done(); });
  later.after.push_back(earlier);
  ++later.blockers;  // a search in progress does not know `earlier`
  ++delays_;
  schedule_->delayed();
}

void Engine::wait(Lock& lock, const OperationRef& operation) {
  ++calls_;
  if (!operation) return;
  complete(lock, operation, Patience::forever);
  schedule_->waited(lock, *operation);
}

void Engine::wait_for_all(Lock& lock) {
  ++calls_;
  while (!pending_.empty()) {
    const OperationRef last = pending_.rbegin()->second;
    complete(lock, last, Patience::forever);
    schedule_->waited(lock, *last);
  }
}

bool Engine::query(Lock& lock, const OperationRef& operation) {
  ++calls_;
  return !operation || operation->done() || schedule_->query(lock, operation);
}

void Engine::hold() {
  ++holds_;
  publish_busy();
}

void Engine::unhold() {
  --holds_;
  publish_busy();
}

void Engine::publish_busy() noexcept {
  busy_.store(pending_.size() + holds_, std::memory_order_release);
}

bool Engine::ready(const Operation& operation) const {
  if (operation.state != Operation::State::waiting) return false;
  for (const OperationRef& earlier : operation.after)
    if (!earlier->done()) return false;
  return true;
}

// `target` and all unfinished operations that it needs, with the edges between them.
std::vector<Operation*> Engine::needed(Operation& target) {
  const std::uint64_t search = ++searches_;
  std::vector<Operation*> found{&target};
  target.search = search;
  target.blockers = 0;
  target.unblocks.clear();
  for (std::size_t i = 0; i < found.size(); ++i) {
    Operation& operation = *found[i];
    for (const OperationRef& earlier : operation.after) {
      if (earlier->done()) continue;
      if (earlier->search != search) {
        earlier->search = search;
        earlier->blockers = 0;
        earlier->unblocks.clear();
        found.push_back(earlier.get());
      }
      ++operation.blockers;
      earlier->unblocks.push_back(&operation);
    }
  }
  return found;
}

bool Engine::complete(Lock& lock, const OperationRef& target, Patience patience) {
  const Clock::time_point deadline = Clock::now() + kGrace;
  while (!target->done()) {
    const std::uint64_t delays = delays_;
    std::vector<Operation*> ready;
    for (Operation* const operation : needed(*target))
      if (operation->blockers == 0 && operation->state == Operation::State::waiting)
        ready.push_back(operation);
    while (!ready.empty()) {
      const std::size_t chosen = schedule_->choose(ready);
      Operation& operation = *ready[chosen];
      ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(chosen));
      const std::vector<Operation*> unblocks = operation.unblocks;
      run(lock, operation);
      if (!operation.done()) continue;  // a host function that another thread calls
      for (Operation* const later : unblocks)
        if (--later->blockers == 0 && later->state == Operation::State::waiting)
          ready.push_back(later);
    }
    if (target->done()) break;
    if (delays_ != delays) continue;
    // The remaining operations need a host function that is running.
    if (patience == Patience::none) return false;
    if (patience == Patience::forever) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
      return target->done();
    }
  }
  return true;
}

void Engine::run_ready(Lock& lock) {
  for (bool ran = true; ran;) {
    ran = false;
    for (auto entry = pending_.begin(); entry != pending_.end();) {
      const OperationRef operation = (entry++)->second;
      if (!ready(*operation)) continue;
      run(lock, *operation);
      ran = ran || operation->done();
    }
  }
}

bool Engine::ordered(const OperationRef& operation, const OperationRef& earlier) {
  if (!operation || operation->done()) return false;
  for (const Operation* const found : needed(*operation))
    if (found == earlier.get()) return true;
  return false;
}

void Engine::run(Lock&, Operation& operation) {
  if (std::holds_alternative<HostWork>(operation.work)) {
    operation.state = Operation::State::running;
    host_functions_.push_back(pending_.at(operation.number));
    if (!std::exchange(caller_started_, true)) start_thread([this] { call_host_functions(); });
    to_call_.notify_one();
    return;
  }
  const OperationRef held = pending_.at(operation.number);
  schedule_->stamp(operation);
  std::visit(Performer{held}, operation.work);
  finish(operation);
}

void Engine::finish(Operation& operation) {
  operation.state = Operation::State::done;
  operation.after.clear();
  ++finished_;
  const OperationRef held = pending_.at(operation.number);
  pending_.erase(operation.number);
  schedule_->finished(operation);
  publish_busy();
  changed_.notify_all();
}

void Engine::call_host_functions() {
  Lock lock{mutex_};
  for (;;) {
    to_call_.wait(lock, [this] { return !host_functions_.empty(); });
    const OperationRef operation = host_functions_.front();
    host_functions_.pop_front();
    schedule_->stamp(*operation);
    lock.unlock();
    {
      const InHostFunction mark{operation->callback};
      call(std::get<HostWork>(operation->work));
    }
    lock.lock();
    if (Checker* const check = checker()) check->callback_ended(*operation);
    finish(*operation);
    schedule_->settle(lock);
  }
}

void Engine::start_idle_thread() {
  if (!std::exchange(idler_started_, true)) start_thread([this] { run_when_idle(); });
  activity_.notify_one();
}

void Engine::run_when_idle() {
  Lock lock{mutex_};
  for (;;) {
    activity_.wait(lock, [this] { return !pending_.empty(); });
    const std::uint64_t seen = calls_;
    const std::uint64_t done = finished_;
    lock.unlock();
    std::this_thread::sleep_for(kIdle);
    lock.lock();
    if (calls_ != seen || finished_ != done) continue;
    while (!pending_.empty()) {
      const OperationRef last = pending_.rbegin()->second;
      if (!complete(lock, last, Patience::none)) break;
      schedule_->waited(lock, *last);
    }
  }
}

}  // namespace millrace::virtual_cuda
