// The work of one call must not grow with the number of live, free or waiting blocks or of streams.
// Each workload runs with 1,000 objects, then with 100,000. A call may take only a few more steps.
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"
#include "test/support/steps.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kBlock = 4 * KiB;
constexpr int kCalls = 50;

/// The millrace preset, except that requests of 4 KiB are served from growable ranges.
Policy ranges() {
  Policy policy = Policy::millrace();
  policy.name = "ranges";
  policy.small_limit = 512;
  policy.large_remainder = 512;
  return policy;
}

struct Crowd {
  explicit Crowd(const Policy& policy)
      : allocator{ordered, policy.sharing == Sharing::completed ? pinned : own, policy} {}

  /// Launches work that ends only when the program waits for it.
  void keep_busy(const Stream& stream) {
    device.launch({.name = "work",
                   .views = {},
                   .cost = {.fixed = std::chrono::hours{10}},
                   .host = {},
                   .cuda = {}},
                  stream.handle());
  }
  void* allocate(const Stream& stream, std::size_t bytes = kBlock) {
    void* const block = allocator.allocate(bytes, stream);
    live.push_back(block);
    return block;
  }
  /// Creates n streams with one block each. One of the blocks is large.
  void one_large(std::size_t n, std::size_t which) {
    for (std::size_t i = 0; i < n; ++i) {
      streams.push_back(std::make_unique<Stream>(ordered, StreamOptions{.name = "one"}));
      (void)allocate(*streams.back(), i == which ? 256 * MiB : 2 * MiB);
    }
  }
  void pair(const Stream& stream, std::size_t bytes = kBlock) {
    allocator.deallocate(allocator.allocate(bytes, stream));
  }
  /// Leaves n free blocks of `stream`, each between two live blocks.
  void fragment(const Stream& stream, std::size_t n) {
    std::vector<void*> every_other;
    for (std::size_t i = 0; i < n; ++i) {
      every_other.push_back(allocator.allocate(kBlock, stream));
      (void)allocate(stream);
    }
    for (void* const block : every_other) allocator.deallocate(block);
  }
  /// Makes a request above the limit. The first call also gives back all memory that is free.
  void fail() {
    if (limit == 0) allocator.set_limit(limit = allocator.statistics().bytes.reserved.current);
    CHECK_THROWS_AS(allocator.allocate(2 * GiB, main), out_of_memory);
  }

  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(
      {.memory_bytes = 64 * GiB, .launch_queue_depth = 10'000'000, .data = false});
  OrderedDevice ordered{device};
  DeviceSource own_source{device};
  PinnedSource pinned_source{device};
  SegmentSource &own = own_source, &pinned = pinned_source;
  CachingAllocator allocator;
  Stream main{ordered, {.name = "main"}};
  Stream copy{ordered, {.name = "copy"}};
  Stream third{ordered, {.name = "third"}};
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<void*> live;
  std::size_t limit = 0;
  /// Calls that are not counted. They do work that the setup deferred, once for each object.
  int warm_ups = 1;
};

/// Sets up n objects and returns a function that makes one more call.
using Workload = std::function<std::function<void()>(Crowd&, std::size_t)>;

std::uint64_t most_steps(const Policy& policy, std::size_t n, const Workload& workload) {
  Crowd crowd{policy};
  const std::function<void()> call = workload(crowd, n);
  for (int i = 0; i < crowd.warm_ups; ++i) call();
  std::uint64_t most = 0;
  for (int i = 0; i < kCalls; ++i) most = std::max(most, steps(call));
  crowd.allocator.check_invariants();
  return most;
}

// AddressSanitizer does not change the number of steps, but the setup takes five times as long. A
// run with it uses fewer objects, because it only looks for errors.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kMany = 10'000, kManyStreams = 2'000;
#else
constexpr std::size_t kMany = 100'000, kManyStreams = 8'000;
#endif

void check_cliff(const Policy& policy, const Workload& workload, std::size_t few = 1'000,
                 std::size_t many = kMany) {
  const std::uint64_t before = most_steps(policy, few, workload);
  const std::uint64_t after = most_steps(policy, many, workload);
  INFO(policy.name << ": " << before << " steps with " << few << ", " << after << " with " << many);
  CHECK(after <= 3 * before + 100);
  CHECK(after <= 50'000);
}

void check_cliffs(const Workload& workload) {
  for (const Policy& policy : {Policy::millrace(), ranges(), Policy::torch(), Policy::pinned()}) {
    check_cliff(policy, workload);
  }
}

/// Like `check_cliffs`, with fewer objects, because the virtual device simulates each stream.
void check_streams(const Workload& workload) {
  for (const Policy& policy : {Policy::millrace(), ranges(), Policy::torch(), Policy::pinned()}) {
    check_cliff(policy, workload, 1'000, kManyStreams);
  }
}

}  // namespace

TEST_CASE("an allocation costs the same however many blocks are live", "[cliffs]") {
  check_cliffs([](Crowd& crowd, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) (void)crowd.allocate(crowd.main, 512 * (1 + i * i % 31));
    return [&] { (void)crowd.allocate(crowd.main, 512 * (1 + crowd.live.size() % 37)); };
  });
}

TEST_CASE("an allocation and a free cost the same however many blocks of a page are live",
          "[cliffs]") {
  const Workload workload = [](Crowd& crowd, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) (void)crowd.allocate(crowd.main, 512);
    return [&crowd, i = std::size_t{0}]() mutable {
      i = (i + 7'919) % crowd.live.size();
      crowd.allocator.deallocate(crowd.live[i]);
      crowd.live[i] = crowd.allocator.allocate(512, crowd.main);
    };
  };
  check_cliff(Policy::millrace(), workload, 16, 4'000);
  check_cliff(Policy::torch(), workload, 16, 4'000);
}

TEST_CASE("a request that no free fragment fits costs the same however many are free", "[cliffs]") {
  check_cliffs([](Crowd& crowd, std::size_t n) {
    crowd.fragment(crowd.main, n);
    return [&] { (void)crowd.allocate(crowd.main, 2 * kBlock); };
  });
}

TEST_CASE("a request costs the same however many runs of neighbors are too small for it",
          "[cliffs]") {
  check_cliffs([](Crowd& crowd, std::size_t n) {
    std::vector<void*> freed;
    for (std::size_t i = 0; i < n; ++i) {  // blocks of two streams, then one that stays live
      freed.push_back(crowd.allocator.allocate(kBlock, crowd.main));
      freed.push_back(crowd.allocator.allocate(kBlock, crowd.copy));
      (void)crowd.allocate(crowd.main);
    }
    for (void* const block : freed) crowd.allocator.deallocate(block);
    // These calls last until a request grows, which marks the streams and polls. After that the
    // allocator knows that the frees are complete.
    crowd.warm_ups = 400;
    return [&] { (void)crowd.allocate(crowd.main, 3 * kBlock); };
  });
}

TEST_CASE("a request that grows costs the same however many free segments are still in use",
          "[cliffs]") {
  Policy policy = Policy::millrace();
  policy.growable_ranges = false;
  policy.large_segment_least = policy.large_segment_most = 2 * MiB;
  const auto workload = [](Crowd& crowd, std::size_t n) {
    crowd.keep_busy(crowd.main);
    for (std::size_t i = 0; i < n; ++i) (void)crowd.allocate(crowd.main, 2 * MiB);
    for (void* const block : crowd.live) crowd.allocator.deallocate(block);
    return std::function<void()>{[&] { (void)crowd.allocate(crowd.copy, 4 * MiB); }};
  };
  check_cliff(policy, workload, 100, 10'000);
}

TEST_CASE("another stream's request costs the same however many blocks it would have to wait for",
          "[cliffs]") {
  check_cliffs([](Crowd& crowd, std::size_t n) {
    crowd.keep_busy(crowd.main);
    crowd.fragment(crowd.main, n);
    return [&] { (void)crowd.allocate(crowd.copy); };
  });
}

TEST_CASE("an allocation and its free cost the same however many blocks drain elsewhere",
          "[cliffs]") {
  check_cliffs([](Crowd& crowd, std::size_t n) {
    crowd.keep_busy(crowd.copy);
    for (std::size_t i = 0; i < n; ++i) (void)crowd.allocate(crowd.main);
    for (void* const block : crowd.live) {
      crowd.allocator.record_use(block, crowd.copy);
      crowd.allocator.deallocate(block);
    }
    return [&] { crowd.pair(crowd.third); };
  });
}

TEST_CASE("an allocation and its free cost the same however many scopes are open", "[cliffs]") {
  check_cliffs([](Crowd& crowd, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) (void)crowd.allocator.open_scope();
    return [&] { crowd.pair(crowd.main); };
  });
}

TEST_CASE("an allocation and its free cost the same however many one-shot streams there were",
          "[cliffs]") {
  check_streams([](Crowd& crowd, std::size_t n) {
    const auto once = [&] {
      const Stream passing{crowd.ordered, {.name = "passing"}};
      crowd.pair(passing);
    };
    for (std::size_t i = 0; i < n; ++i) once();
    return once;
  });
}

TEST_CASE("a use and its part of the free cost the same however many streams use the block",
          "[cliffs]") {
  const auto steps_of_each = [](const Policy& policy, std::size_t n) {
    Crowd crowd{policy};
    for (std::size_t i = 0; i < n; ++i) {
      crowd.streams.push_back(
          std::make_unique<Stream>(crowd.ordered, StreamOptions{.name = "user"}));
    }
    void* const block = crowd.allocator.allocate(kBlock, crowd.main);
    const std::uint64_t all = steps([&] {
      for (std::size_t i = n; i-- > 0;) {
        crowd.allocator.record_use(block, *crowd.streams[i]);
        crowd.allocator.record_use(block, *crowd.streams[i]);
      }
      crowd.allocator.deallocate(block);
    });
    crowd.allocator.check_invariants();
    return all / n;
  };
  for (const Policy& policy : {Policy::millrace(), Policy::torch()}) {
    const std::uint64_t few = steps_of_each(policy, 200), many = steps_of_each(policy, 2'000);
    INFO(policy.name << ": " << few << " steps a use with 200 streams, " << many << " with 2,000");
    CHECK(many <= 3 * few + 20);
  }
}

TEST_CASE("a request costs the same however many streams have free blocks", "[cliffs]") {
  check_streams([](Crowd& crowd, std::size_t n) {
    std::vector<void*> blocks;
    for (std::size_t i = 0; i < n; ++i) {
      crowd.streams.push_back(
          std::make_unique<Stream>(crowd.ordered, StreamOptions{.name = "one"}));
      blocks.push_back(crowd.allocator.allocate(kBlock, *crowd.streams.back()));
    }
    for (void* const block : blocks) crowd.allocator.deallocate(block);
    return [&] { (void)crowd.allocate(crowd.main); };
  });
}

TEST_CASE("a request that a poll serves costs the same however many streams have work in flight",
          "[cliffs]") {
  const Workload workload = [](Crowd& crowd, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      crowd.streams.push_back(
          std::make_unique<Stream>(crowd.ordered, StreamOptions{.name = "busy"}));
      crowd.keep_busy(*crowd.streams.back());
      crowd.ordered.mark(*crowd.streams.back());
    }
    for (int i = 0; i <= kCalls; ++i) (void)crowd.allocate(crowd.copy, 256 * MiB);
    return [&crowd] {
      void* const wanted = crowd.live[crowd.live.size() - kCalls - 1];  // the next block of copy
      crowd.allocator.deallocate(wanted);
      crowd.ordered.mark(crowd.copy);
      crowd.device.synchronize(crowd.copy.handle());  // complete; only a poll detects it
      CHECK(crowd.allocate(crowd.main, 256 * MiB) == wanted);
    };
  };
  check_cliff(Policy::millrace(), workload, 200, kManyStreams);
  check_cliff(ranges(), workload, 200, kManyStreams);
}

TEST_CASE("a request does not grow while one of very many streams has a sufficient block",
          "[cliffs]") {
  constexpr std::size_t kStreams = 300;
  for (std::size_t which = 0; which < kStreams; which += 23) {
    Crowd crowd{Policy::millrace()};
    crowd.one_large(kStreams, which);
    for (std::size_t i = 0; i < kStreams; ++i) {
      if (i != which) crowd.keep_busy(*crowd.streams[i]);
      crowd.allocator.deallocate(crowd.live[i]);
      crowd.ordered.mark(*crowd.streams[i]);
    }
    const auto reserved = crowd.allocator.statistics().bytes.reserved.current;
    void* const given = crowd.allocate(crowd.main, 256 * MiB);
    INFO("stream " << which);
    CHECK(given == crowd.live[which]);
    CHECK(crowd.allocator.statistics().bytes.reserved.current == reserved);
  }
}

TEST_CASE("a request does not grow if a poll of some streams leaves few in flight", "[cliffs]") {
  const std::size_t n = GENERATE(60, 65, 100, 128, 129, 300);
  for (std::size_t which = 0; which < n; which += 1 + n / 12) {
    Crowd crowd{Policy::millrace()};
    crowd.one_large(n, which);
    for (std::size_t i = 0; i < n; ++i) {
      crowd.allocator.deallocate(crowd.live[i]);
      crowd.ordered.mark(*crowd.streams[i]);
    }
    crowd.device.synchronize();  // all work is complete; only polls detect it
    INFO("stream " << which << " of " << n);
    void* const wanted = crowd.live[which];
    CHECK(crowd.allocate(crowd.main, 256 * MiB) == wanted);
  }
}

TEST_CASE("a marker of the legacy stream shows that blocking streams are complete", "[cliffs]") {
  constexpr std::size_t kStreams = 100;
  Crowd crowd{Policy::millrace()};
  const StreamRef legacy = crowd.ordered.attach(crowd.device.legacy_stream());
  for (std::size_t i = 0; i < kStreams; ++i) {
    crowd.streams.push_back(std::make_unique<Stream>(crowd.ordered, StreamOptions{.name = "busy"}));
    crowd.keep_busy(*crowd.streams.back());
    crowd.ordered.mark(*crowd.streams.back());
  }
  const Stream blocking{crowd.ordered, {.blocking = true, .name = "blocking"}};
  void* const wanted = crowd.allocator.allocate(256 * MiB, blocking);
  crowd.allocator.deallocate(wanted);
  crowd.ordered.mark(legacy);
  crowd.device.synchronize(crowd.device.legacy_stream());
  const auto queries = crowd.device.calls(Call::query_event);
  CHECK(crowd.allocate(crowd.main, 256 * MiB) == wanted);
  CHECK(crowd.allocator.statistics().counts.served_waited == 0);
  CHECK(crowd.device.calls(Call::query_event) - queries < 10);  // only the legacy stream's
}

TEST_CASE("a request that fails costs the same however many fragments are free", "[cliffs]") {
  check_cliffs([](Crowd& crowd, std::size_t n) {
    crowd.fragment(crowd.main, n);
    crowd.fail();
    return [&] { crowd.fail(); };
  });
}

TEST_CASE("a request that fails costs the same however many streams have fronts", "[cliffs]") {
  const auto workload = [](Crowd& crowd, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      crowd.streams.push_back(
          std::make_unique<Stream>(crowd.ordered, StreamOptions{.name = "one"}));
      crowd.pair(*crowd.streams.back());
    }
    crowd.fail();
    return std::function<void()>{[&] { crowd.fail(); }};
  };
  check_cliff(Policy::millrace(), workload, 100, 2'000);
}

TEST_CASE("a request that fails costs the same however many blocks drain", "[cliffs]") {
  check_cliffs([](Crowd& crowd, std::size_t n) {
    for (std::size_t i = 0; i < 2 * n; ++i) (void)crowd.allocate(crowd.main);
    crowd.keep_busy(crowd.copy);
    for (std::size_t i = 0; i < 2 * n; i += 2) {
      crowd.allocator.record_use(crowd.live[i], crowd.copy);
      crowd.allocator.deallocate(crowd.live[i]);
    }
    crowd.fail();
    return [&] { crowd.fail(); };
  });
}

}  // namespace millrace::test
