#include "millrace/device/thread_executor.hpp"

#include <chrono>
#include <deque>
#include <mutex>
#include <set>
#include <stdexcept>

#include "test/support/catch.hpp"

using namespace std::chrono_literals;
using namespace millrace;

TEST_CASE("join throws the exception of a real thread") {
  ThreadExecutor executor;
  const auto task = executor.spawn("broken", [] { throw std::runtime_error("out of batches"); });
  CHECK_THROWS_WITH(task->join(), "out of batches");
}

TEST_CASE("real threads share a queue through a condition") {
  ThreadExecutor executor;
  const auto condition = executor.make_condition();
  std::mutex mutex;
  std::deque<int> queue;
  const auto loader = executor.spawn("loader", [&] {
    for (int i = 0; i < 100; ++i) {
      executor.yield();
      const std::lock_guard lock{mutex};
      queue.push_back(i);
      condition->notify_all();
    }
  });
  for (int i = 0; i < 100; ++i) {
    std::unique_lock lock{mutex};
    while (queue.empty()) condition->wait(lock);
    CHECK(queue.front() == i);
    queue.pop_front();
  }
  loader->join();
}

TEST_CASE("host work takes its time on the real clock") {
  ThreadExecutor executor;
  for (const Nanoseconds time : {Nanoseconds{20us}, Nanoseconds{2ms}}) {
    const Nanoseconds before = executor.now();
    executor.spend(time);
    CHECK(executor.now() - before >= time);
  }
}

TEST_CASE("dropping a task waits for its end") {
  ThreadExecutor executor;
  bool ended = false;
  (void)executor.spawn("dropped", [&] {
    executor.spend(1ms);
    ended = true;
  });
  CHECK(ended);
}

TEST_CASE("a real executor reports the edges between its threads") {
  struct Edges final : HostOrderObserver {
    void released(std::uint64_t object) override {
      const std::lock_guard lock{mutex};
      objects.insert(object);
    }
    void acquired(std::uint64_t object) override {
      const std::lock_guard lock{mutex};
      unknown += objects.contains(object) ? 0 : 1;
      ++edges;
    }
    void ended() override {
      const std::lock_guard lock{mutex};
      ++ends;
    }
    std::mutex mutex;
    std::set<std::uint64_t> objects;
    int unknown = 0, edges = 0, ends = 0;
  } observer;
  ThreadExecutor executor;
  executor.observe_host_order(&observer);
  executor.spawn("one", [] {})->join();
  CHECK(observer.unknown == 0);
  CHECK(observer.edges == 2);  // the thread's start and end
  CHECK(observer.ends == 1);
}
