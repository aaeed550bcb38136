// With Completion::synchronized, the allocator's decisions do not depend on when the device
// finishes its work.

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/forwarding_source.hpp"
#include "test/support/seed.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
namespace {

/// Numbers memory in the order of acquisition, because its addresses differ between ranks.
class NumberedSource final : public ForwardingSource {
 public:
  NumberedSource(SegmentSource& source, std::uint64_t rank)
      : ForwardingSource(source), random_(rank) {}

  void* acquire(std::size_t bytes) override {
    if (random_() % 2 == 0) return came(ForwardingSource::acquire(bytes));
    void* const before = ForwardingSource::acquire(bytes);
    void* const base = ForwardingSource::acquire(bytes);
    ForwardingSource::release(before, bytes);
    return came(base);
  }
  void release(void* base, std::size_t bytes) override {
    bases_.erase(static_cast<std::byte*>(base));
    ForwardingSource::release(base, bytes);
  }
  AddressRange reserve() override {
    const AddressRange range = ForwardingSource::reserve();
    came(range.base);
    return range;
  }
  void give_back(AddressRange range) override {
    bases_.erase(static_cast<std::byte*>(range.base));
    ForwardingSource::give_back(range);
  }

  using Place = std::pair<std::size_t, std::ptrdiff_t>;  // number of the piece, offset in it
  [[nodiscard]] Place place(void* address) const {
    const auto* const at = static_cast<std::byte*>(address);
    const auto& [base, number] = *std::prev(bases_.upper_bound(at));
    return {number, at - base};
  }

 private:
  void* came(void* base) {
    bases_[static_cast<std::byte*>(base)] = ++count_;
    return base;
  }

  std::mt19937_64 random_;
  std::map<const std::byte*, std::size_t> bases_;
  std::size_t count_ = 0;
};

/// The decisions of one rank's allocator.
struct Decisions {
  std::vector<NumberedSource::Place> places;  // one for each allocation
  std::size_t reserved = 0;
  std::uint64_t waits = 0;

  bool operator==(const Decisions&) const = default;
};

/// Runs a program that is the same for each `schedule`. The schedule decides when the device
/// finishes the work.
Decisions run(const Policy& policy, Completion completion, std::uint64_t program,
              std::uint64_t schedule) {
  VirtualMachine machine{{.schedule = VirtualMachine::Schedule::adversarial, .seed = schedule}};
  VirtualDevice& device = machine.add_device({.memory_bytes = std::size_t{4} << 30, .data = false});
  OrderedDevice ordered{device, completion};
  DeviceSource device_memory{device};
  NumberedSource source{device_memory, schedule};
  CachingAllocator allocator{ordered, source, policy};
  std::vector<Stream> streams;
  for (int i = 0; i < 3; ++i) streams.emplace_back(ordered);
  std::mt19937_64 random{program};
  const auto any = [&]() -> Stream& { return streams[random() % streams.size()]; };
  Decisions decisions;
  std::vector<std::pair<void*, std::size_t>> live;
  for (int step = 0; step < 400; ++step) {
    const std::uint64_t choice = random() % 16;
    if (choice < 7 || live.empty()) {
      const std::size_t bytes = std::size_t{512} << random() % 14;
      const std::size_t asked = bytes + random() % bytes;
      Stream& stream = any();
      void* const address = allocator.allocate(asked, stream);
      decisions.places.push_back(source.place(address));
      device.launch({.name = "work",
                     .views = {{address, asked, Access::write}},
                     .cost = {.fixed = std::chrono::microseconds{50}},
                     .host = {},
                     .cuda = {}},
                    stream.handle());
      live.emplace_back(address, asked);
    } else if (choice < 12) {
      std::swap(live[random() % live.size()], live.back());
      void* const address = live.back().first;
      if (random() % 4 == 0) allocator.record_use(address, any());
      if (random() % 8 == 0) allocator.transfer(address, any());
      if (random() % 8 == 0) {
        allocator.deallocate(address, any());
      } else {
        allocator.deallocate(address);
      }
      live.pop_back();
    } else if (choice < 14) {
      ordered.mark(any());
    } else if (choice == 14) {
      any().wait_stream(any());
    } else if (random() % 2 == 0) {
      ordered.synchronize(any());
    } else if (random() % 2 == 0) {
      allocator.trim(allocator.statistics().bytes.reserved.current / 2);
    } else {
      decisions.places.push_back(
          {0, static_cast<std::ptrdiff_t>(allocator.reserve((1 + random() % 8) * MiB, any()))});
    }
  }
  for (const auto& [address, bytes] : live) allocator.deallocate(address);
  allocator.check_invariants();
  decisions.reserved = allocator.statistics().bytes.reserved.peak;
  decisions.waits = device.calls(Call::wait);
  return decisions;
}

std::vector<Policy> presets() {
  return {Policy::millrace(), exact_segments(Policy::millrace()), Policy::torch(),
          Policy::pinned()};
}

}  // namespace

TEST_CASE("ranks that make the same calls reuse the same memory, however fast each device is") {
  for (const Policy& policy : presets()) {
    for (std::uint64_t program = 0; program < 8; ++program) {
      CAPTURE(policy.name, seed(), program);
      const Decisions first = run(policy, Completion::synchronized, seed() + program, 1);
      for (std::uint64_t schedule = 2; schedule < 8; ++schedule) {
        CAPTURE(schedule);
        CHECK(run(policy, Completion::synchronized, seed() + program, schedule) == first);
      }
    }
  }
}

TEST_CASE("ranks that poll may reuse different memory") {
  std::size_t differ = 0;
  for (const Policy& policy : presets()) {
    for (std::uint64_t program = 0; program < 8; ++program) {
      const Decisions first = run(policy, Completion::polled, seed() + program, 1);
      for (std::uint64_t schedule = 2; schedule < 8; ++schedule) {
        differ += run(policy, Completion::polled, seed() + program, schedule) == first ? 0 : 1;
      }
    }
  }
  CHECK(differ > 0);  // otherwise the test above proves nothing
}

TEST_CASE("with Completion::synchronized a query orders nothing, and a synchronization does") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device({.memory_bytes = 64 * MiB});
  OrderedDevice ordered{device, Completion::synchronized};
  Stream main{ordered}, copy{ordered};
  const Point work{main.id(), ordered.ledger().next(main.id())};
  Event event;
  ordered.record(event, main);
  CHECK_FALSE(ordered.cover(work).has_value());
  device.synchronize();  // OrderedDevice does not see this
  const auto asked = device.calls(Call::query_event);
  ordered.poll();
  ordered.poll(main.id());
  CHECK_FALSE(ordered.poll(work));
  CHECK(device.calls(Call::query_event) == asked);
  CHECK(ordered.query(event));
  CHECK_FALSE(ordered.ledger().completed(work));
  CHECK_FALSE(ordered.ledger().ordered(work, copy.id()));
  CHECK(ordered.wait_for(copy, work));  // ordered nevertheless
  CHECK(ordered.ledger().ordered(work, copy.id()));
  ordered.synchronize(event);
  CHECK(ordered.ledger().completed(work));
}

}  // namespace millrace::test
