#include "test/kernels/machine.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "test/kernels/fiber.hpp"

namespace millrace::test::kernels {
namespace {

constexpr unsigned kLanes = 32;
constexpr std::size_t kApart = 320;  // stacks begin in different cache lines

struct Warp {
  std::array<std::array<std::uint64_t, kLanes>, 2> brought{};  ///< of two meetings, in turn
  std::array<std::uint32_t, 2> lanes{};
  unsigned meetings = 0;
  unsigned waiting = 0, running = 0;  ///< numbers of lanes
  Meeting meeting = Meeting::sync;
};

struct Thread {
  Fiber* fiber = nullptr;  ///< null: has not begun, or has ended
  enum class State { ready, in_warp, in_block, ended } state = State::ready;
  Place place;
};

/// State that all blocks reuse. A fiber runs threads from start to end, one after the other. When
/// its thread waits, another fiber takes over.
struct Machine {
  std::vector<Thread> threads;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Fiber*> free_fibers;  ///< without a thread

  void begin_block(unsigned number, const Grid& grid) {
    if (threads.size() < grid.threads.count()) threads.resize(grid.threads.count());
    for (unsigned i = 0; i < grid.threads.count(); ++i) threads[i] = {.place = {i, number, grid}};
    if (free_fibers.size() == fibers.size()) return;
    free_fibers.clear();  // the last block failed
    for (const auto& fiber : fibers) {
      fiber->restart();
      free_fibers.push_back(fiber.get());
    }
  }
  Fiber& take_fiber(void (*body)()) {
    if (free_fibers.empty())
      return *fibers.emplace_back(std::make_unique<Fiber>(body, fibers.size() % 128 * kApart));
    Fiber& fiber = *free_fibers.back();
    free_fibers.pop_back();
    return fiber;
  }
};

class Block;
Block* running_block = nullptr;
std::mt19937_64 schedules{1};

/// The threads of one block.
class Block {
 public:
  Block(unsigned number, const Grid& grid, Machine& machine, const std::function<void()>& body)
      : machine_(machine),
        threads_(machine.threads),
        body_(body),
        warps_((grid.threads.count() + kLanes - 1) / kLanes),
        shared_(new std::byte[grid.shared]) {
    std::memset(shared_.get(), 0xCD, grid.shared);
    machine_.begin_block(number, grid);
    for (unsigned i = 0; i < grid.threads.count(); ++i) {
      ++warps_[i / kLanes].running;
      ready_.push_back(i);
    }
    running_ = grid.threads.count();
  }

  void run() {
    running_block = this;
    choose();
    Fiber::go_on(host_, fiber_of_chosen());
    running_block = nullptr;
    if (failure_) std::rethrow_exception(failure_);
    if (problem_.empty() && running_ > 0) problem_ = "threads wait for others that do not come";
    if (!problem_.empty()) throw Diverged{problem_};
  }

  [[nodiscard]] const Place& place() const { return threads_[current_].place; }
  [[nodiscard]] std::byte* shared() const { return shared_.get(); }

  const std::uint64_t* meet(Meeting meeting, std::uint64_t own) {
    Warp& warp = warps_[current_ / kLanes];
    const unsigned turn = warp.meetings % 2;
    if (warp.waiting == 0) {
      warp.meeting = meeting;
      warp.lanes[turn] = 0;
    } else if (warp.meeting != meeting) {
      problem_ = "lanes of a warp meet at different places";
    }
    warp.brought[turn][current_ % kLanes] = own;
    warp.lanes[turn] |= 1U << (current_ % kLanes);
    ++warp.waiting;
    wait(Thread::State::in_warp);
    return warp.brought[turn].data();
  }
  [[nodiscard]] std::uint32_t met() const {
    const Warp& warp = warps_[current_ / kLanes];
    return warp.lanes[(warp.meetings + 1) % 2];
  }

  void meet_all() { wait(Thread::State::in_block); }
  bool any(bool own) {
    any_[turn_] = any_[turn_] || own;
    const unsigned turn = turn_;
    meet_all();
    return any_[turn];
  }

 private:
  static void begin() {
    for (;;) {
      Block& block = *running_block;
      try {
        block.body_();
      } catch (...) {
        block.failure_ = std::current_exception();
      }
      block.end();
    }
  }

  // Returns when this fiber has another thread to run. By then this block may be destroyed.
  void end() {
    Thread& thread = threads_[current_];
    --warps_[current_ / kLanes].running;
    --running_;
    thread.state = Thread::State::ended;
    Fiber& fiber = *std::exchange(thread.fiber, nullptr);
    release_warp(current_ / kLanes);
    release_block();
    const bool goes_on = choose();
    if (goes_on && threads_[current_].fiber == nullptr) {
      threads_[current_].fiber = &fiber;
      return;
    }
    machine_.free_fibers.push_back(&fiber);
    Fiber::go_on(fiber, goes_on ? *threads_[current_].fiber : host_);
  }

  void wait(Thread::State state) {
    const unsigned own = current_;
    threads_[own].state = state;
    if (state == Thread::State::in_block) ++waiting_;
    release_warp(own / kLanes);
    release_block();
    Fiber& from = *threads_[own].fiber;
    if (!choose()) {
      Fiber::go_on(from, host_);
    } else if (current_ != own) {
      Fiber::go_on(from, fiber_of_chosen());
    }
  }

  /// Chooses a thread that can run. @return false if the host has to run
  bool choose() {
    if (ready_.empty() || failure_ || !problem_.empty()) return false;
    const std::size_t at = schedules() % ready_.size();
    current_ = std::exchange(ready_[at], ready_.back());
    ready_.pop_back();
    return true;
  }

  Fiber& fiber_of_chosen() {
    Thread& thread = threads_[current_];
    if (thread.fiber == nullptr) thread.fiber = &machine_.take_fiber(&Block::begin);
    return *thread.fiber;
  }

  // Releases the lanes of a warp once all its lanes that have not ended wait.
  void release_warp(unsigned number) {
    Warp& warp = warps_[number];
    if (warp.waiting == 0 || warp.waiting < warp.running) return;
    ++warp.meetings;
    warp.waiting = 0;
    release(number * kLanes, std::min<std::size_t>((number + 1) * kLanes, grid_threads()),
            Thread::State::in_warp);
  }
  void release_block() {
    if (waiting_ == 0 || waiting_ < running_) return;
    waiting_ = 0;
    turn_ ^= 1U;
    any_[turn_] = false;
    release(0, grid_threads(), Thread::State::in_block);
  }
  void release(std::size_t first, std::size_t end, Thread::State from) {
    for (std::size_t i = first; i < end; ++i) {
      if (threads_[i].state != from) continue;
      threads_[i].state = Thread::State::ready;
      ready_.push_back(static_cast<unsigned>(i));
    }
  }
  [[nodiscard]] std::size_t grid_threads() const {
    return threads_.front().place.grid.threads.count();
  }

  Machine& machine_;
  std::vector<Thread>& threads_;
  const std::function<void()>& body_;
  std::vector<Warp> warps_;
  const std::unique_ptr<std::byte[]> shared_;
  std::vector<unsigned> ready_;
  Fiber host_;
  unsigned current_ = 0, running_ = 0, waiting_ = 0, turn_ = 0;
  std::array<bool, 2> any_{};
  std::string problem_;
  std::exception_ptr failure_;
};

}  // namespace

void run(const Grid& grid, const std::function<void()>& thread) {
  static Machine machine;
  for (unsigned block = 0; block < grid.blocks.count(); ++block) {
    Block{block, grid, machine, thread}.run();
  }
}

void draw_schedules(std::uint64_t seed) { schedules.seed(seed); }

const Place& place() { return running_block->place(); }
std::byte* shared_memory() { return running_block->shared(); }
void meet_block() { running_block->meet_all(); }
bool any_of_block(bool own) { return running_block->any(own); }
const std::uint64_t* meet_warp(Meeting meeting, std::uint64_t own) {
  return running_block->meet(meeting, own);
}
std::uint32_t lanes_met() { return running_block->met(); }

}  // namespace millrace::test::kernels
