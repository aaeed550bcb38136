#pragma once

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "test/support/allocators.hpp"
#include "test/support/forwarding_source.hpp"
#include "test/support/seed.hpp"
#include "test/support/sizes.hpp"
#include "test/support/threaded_device.hpp"

namespace millrace::test {

inline void raise_to(std::atomic<std::size_t>& most, std::size_t value) {
  std::size_t was = most;
  while (was < value && !most.compare_exchange_weak(was, value)) {
  }
}

/// Device memory that keeps the maximum of its use and lets other threads run around each call.
class WatchedSource final : public ForwardingSource {
 public:
  WatchedSource(ThreadedDevice& device, SegmentSource& source)
      : ForwardingSource(source), device_(device) {}

  void* acquire(std::size_t bytes) override {
    let_others();
    void* const base = ForwardingSource::acquire(bytes);
    note();
    return base;
  }
  void map(void* address, std::size_t bytes) override {
    let_others();
    ForwardingSource::map(address, bytes);
    note();
  }
  void release(void* base, std::size_t bytes) override {
    let_others();
    ForwardingSource::release(base, bytes);
    let_others();
  }
  void unmap(void* address, std::size_t bytes) override {
    let_others();
    ForwardingSource::unmap(address, bytes);
    let_others();
  }
  void begin_move(void* to, void* from, std::size_t bytes) override {
    let_others();
    ForwardingSource::begin_move(to, from, bytes);
    let_others();
  }
  void end_move(void* from, std::size_t bytes) override {
    let_others();
    ForwardingSource::end_move(from, bytes);
    let_others();
  }

  [[nodiscard]] std::size_t most() const { return most_; }
  void forget_most() { most_ = device_.allocated(); }

 private:
  void note() {
    raise_to(most_, device_.allocated());
    let_others();
  }
  void let_others() {
    std::uint64_t state = seed() * 0x9E3779B97F4A7C15U + ++calls_ * 0xBF58476D1CE4E5B9U;
    state ^= state >> 31U;
    for (std::uint64_t i = 0; i < state % 8; ++i) std::this_thread::yield();
  }

  ThreadedDevice& device_;
  std::atomic<std::size_t> most_{0};
  std::atomic<std::uint64_t> calls_{0};
};

/// One device with a stream for each thread of a test.
struct ThreadedBench {
  static constexpr std::size_t kMemory = 256 * MiB;
  static constexpr std::size_t kThreads = 4;

  ThreadedBench() {
    for (std::size_t t = 0; t < kThreads; ++t) streams.emplace_back(ordered);
  }

  ThreadedDevice device{kMemory};
  OrderedDevice ordered{device};
  DeviceSource device_memory{device};
  WatchedSource source{device, device_memory};
  std::vector<Stream> streams;
};

/// Runs `body` on each thread with the thread's number and its own generator. Joins the threads.
template <typename Body>
void on_threads(Body body) {
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < ThreadedBench::kThreads; ++t) {
    threads.emplace_back([&body, t] {
      std::mt19937_64 random{seed() * 1000 + t};
      body(t, random);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

[[nodiscard]] inline std::vector<Policy> thread_presets() {
  return {Policy::torch(), Policy::millrace(), exact_segments(Policy::millrace())};
}

}  // namespace millrace::test
