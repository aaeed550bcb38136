#include "millrace/ordering/adaptive_mutex.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "test/support/catch.hpp"

namespace millrace {
namespace {

/// Runs `work(thread)` on `count` threads and waits for all of them.
template <typename Work>
void on_threads(int count, const Work& work) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&, i] { work(i); });
}

}  // namespace

TEST_CASE("an adaptive mutex lets one thread at a time in") {
  constexpr int kThreads = 4, kTurns = 20'000;
  AdaptiveMutex mutex;
  int inside = 0, most = 0, turns = 0;  // guarded by `mutex`
  on_threads(kThreads, [&](int thread) {
    for (int i = 0; i < kTurns; ++i) {
      if (thread % 2 == 0 || !mutex.try_lock()) mutex.lock();
      const std::lock_guard hold{mutex, std::adopt_lock};
      most = std::max(most, ++inside);
      ++turns;
      --inside;
    }
  });
  CHECK(most == 1);
  CHECK(turns == kThreads * kTurns);
}

TEST_CASE("try_lock of an adaptive mutex fails while another thread has it") {
  AdaptiveMutex mutex;
  REQUIRE(mutex.try_lock());
  std::jthread{[&] { CHECK_FALSE(mutex.try_lock()); }}.join();
  mutex.unlock();
  std::jthread{[&] {
    CHECK(mutex.try_lock());
    mutex.unlock();
  }}.join();
}

// The holder keeps the mutex for longer than a thread spins, so all others sleep. Each unlock must
// then wake the next one, or the test never ends.
TEST_CASE("threads that sleep for an adaptive mutex get it one after another") {
  constexpr int kThreads = 4, kRounds = 20;
  AdaptiveMutex mutex;
  int turns = 0;  // guarded by `mutex`
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> started{0};
    std::unique_lock hold{mutex};
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        ++started;
        const std::lock_guard turn{mutex};
        ++turns;
      });
    }
    while (started < kThreads) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
    CHECK(turns == round * kThreads);
    hold.unlock();
  }
  const std::lock_guard hold{mutex};
  CHECK(turns == kRounds * kThreads);
}

}  // namespace millrace
