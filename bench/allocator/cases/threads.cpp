#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "allocator/cases/case.hpp"

namespace millrace::bench {
namespace {

constexpr std::size_t kBytes = 4096;

/// The measurement of one thread.
struct alignas(128) Share {
  std::uint64_t pairs = 0;
  double cpu_ns = 0, wall_ns = 0;
};

template <typename Body>
void run_threads(Trial& trial, unsigned threads, std::vector<Share>& shares, Body body) {
  std::barrier start{static_cast<std::ptrdiff_t>(threads)};
  std::vector<std::jthread> all;
  trial.begin_calls();
  for (unsigned i = 0; i < threads; ++i) {
    all.emplace_back([&, i] {
      const auto entered = trial.machine().enter_thread();
      start.arrive_and_wait();
      body(i, shares[i]);
    });
  }
  all.clear();
  trial.end_calls();
  double cpu = 0, wall = 0;
  std::uint64_t pairs = 0;
  for (const Share& share : shares) {
    cpu += share.cpu_ns;
    wall += share.wall_ns;
    pairs += share.pairs;
  }
  // The sum over threads divided by all pairs is the mean time that a pair takes a thread.
  trial.add(pairs, cpu, wall);
}

/// Each thread allocates and frees on its own stream. All threads stop together.
Measured own_streams(const SubjectRow& row, const Setting& setting, unsigned threads) {
  constexpr std::uint64_t kChunk = 256;
  Trial trial{row, setting, threads};
  Subject& subject = trial.subject();
  std::vector<Share> shares(threads);
  std::atomic<bool> stop = false;
  run_threads(trial, threads, shares, [&](unsigned stream, Share& share) {
    const double cpu_began = thread_cpu_ns(), wall_began = wall_ns();
    while (!stop.load(std::memory_order_relaxed)) {
      for (std::uint64_t i = 0; i < kChunk; ++i) {
        subject.free(subject.allocate(kBytes, stream), kBytes, stream);
      }
      share.pairs += kChunk;
      share.cpu_ns = thread_cpu_ns() - cpu_began;
      if (share.cpu_ns > setting.scale.budget_ns) stop = true;
    }
    share.wall_ns = wall_ns() - wall_began;
  });
  return trial.result(threads * kBytes);
}

/// Two threads allocate a batch each, and each frees the other's batch.
Measured free_across(const SubjectRow& row, const Setting& setting) {
  constexpr std::size_t kBatch = 256;
  Trial trial{row, setting, 2};
  Subject& subject = trial.subject();
  std::vector<Share> shares(2);
  std::vector<std::vector<void*>> batches(2, std::vector<void*>(kBatch));
  std::atomic<bool> enough = false;
  std::barrier meet{2};
  run_threads(trial, 2, shares, [&](unsigned self, Share& share) {
    const unsigned other = 1 - self;
    const auto timed = [&](auto work) {
      const double wall_began = wall_ns(), cpu_began = thread_cpu_ns();
      work();
      share.cpu_ns += thread_cpu_ns() - cpu_began;
      share.wall_ns += wall_ns() - wall_began;
    };
    for (bool last = false; !last;) {
      timed([&] {
        for (void*& block : batches[self]) block = subject.allocate(kBytes, self);
      });
      meet.arrive_and_wait();
      last = enough;  // set only before the barrier, so that both threads see the same value
      timed([&] {
        for (void* const block : batches[other]) subject.free(block, kBytes, other);
      });
      share.pairs += kBatch;
      meet.arrive_and_wait();
      if (share.cpu_ns > setting.scale.budget_ns) enough = true;
    }
  });
  return trial.result(2 * kBatch * kBytes);
}

}  // namespace

void add_threads(Cases& cases) {
  for (const unsigned threads : {1U, 2U}) {
    cases.all.push_back(
        {.suite = "threads",
         .name = std::to_string(threads) + "-on-own-streams",
         .run = [threads](const auto& row,
                          const auto& setting) { return own_streams(row, setting, threads); },
         .subjects = Case::For::threads});
  }
  cases.all.push_back({.suite = "threads",
                       .name = "freed-by-the-other",
                       .run = free_across,
                       .subjects = Case::For::threads});
}

}  // namespace millrace::bench
