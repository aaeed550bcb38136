// Costs of marks and polls with much work in flight, in driver calls and in steps of the ledger.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "test/support/catch.hpp"
#include "test/support/lagging_device.hpp"
#include "test/support/steps.hpp"

using namespace millrace;
using millrace::test::LaggingDevice;
using millrace::test::steps;

namespace {

constexpr int kFew = 1'000;
constexpr int kMany = 100'000;

struct Lagging {
  VirtualMachine machine;
  LaggingDevice device{machine.add_device()};
  OrderedDevice ordered{device};
};

/// Counts the calls of one kind that `body` makes.
template <typename Body>
std::uint64_t calls(Device& device, Call call, Body body) {
  const std::uint64_t before = device.calls(call);
  body();
  return device.calls(call) - before;
}

}  // namespace

TEST_CASE("a poll finds the newest of n complete markers with O(log n) queries and O(n) steps") {
  const int n = GENERATE(kFew, kMany);
  Lagging bench;
  Stream stream{bench.ordered};
  bench.device.behind = LaggingDevice::kStuck;
  for (int i = 0; i < n; ++i) stream.mark();
  const bool all = GENERATE(true, false);
  bench.device.behind = all ? 0 : static_cast<std::uint64_t>(n) / 3;
  std::uint64_t taken = 0;
  const std::uint64_t queries =
      calls(bench.device, Call::query_event, [&] { taken = steps([&] { bench.ordered.poll(); }); });
  CHECK(bench.ordered.ledger().outstanding_markers() == bench.device.behind);
  CHECK(queries < 45);
  CHECK(taken < 4 * static_cast<std::uint64_t>(n) + 2'000);
}

TEST_CASE("a few complete markers cost one query each") {
  Lagging bench;
  Stream stream{bench.ordered};
  bench.device.behind = 1;
  for (int i = 0; i < 3; ++i) stream.mark();
  CHECK(calls(bench.device, Call::query_event, [&] { bench.ordered.poll(); }) == 3);
  CHECK(calls(bench.device, Call::query_event, [&] { bench.ordered.poll(); }) == 1);
}

TEST_CASE("a poll queries each of k streams in flight once") {
  const int k = GENERATE(100, 10'000);
  Lagging bench;
  std::vector<Stream> streams;
  bench.device.behind = LaggingDevice::kStuck;
  for (int i = 0; i < k; ++i) streams.emplace_back(bench.ordered).mark();
  std::uint64_t taken = 0;
  const std::uint64_t queries =
      calls(bench.device, Call::query_event, [&] { taken = steps([&] { bench.ordered.poll(); }); });
  CHECK(queries == static_cast<std::uint64_t>(k));
  CHECK(taken < 8 * static_cast<std::uint64_t>(k));
  bench.device.behind = 0;
}

TEST_CASE("a poll for one point or of one stream queries no other stream") {
  Lagging bench;
  std::vector<Stream> streams;
  bench.device.behind = LaggingDevice::kStuck;
  for (int i = 0; i < kFew; ++i) streams.emplace_back(bench.ordered);
  const Point used = streams[500].mark();
  for (Stream& stream : streams) stream.mark();
  const auto queries = [&](auto body) { return calls(bench.device, Call::query_event, body); };
  CHECK(queries([&] { CHECK_FALSE(bench.ordered.poll(used)); }) == 1);
  CHECK(queries([&] { bench.ordered.poll(used.stream); }) == 1);
  bench.device.behind = kFew;
  CHECK(queries([&] { CHECK(bench.ordered.poll(used)); }) == 1);
  CHECK(queries([&] { CHECK(bench.ordered.poll(used)); }) == 0);
  CHECK(queries([&] { bench.ordered.poll(used.stream); }) == 1);
  CHECK(queries([&] { CHECK_FALSE(bench.ordered.poll(Point{streams[1].id(), 9})); }) == 0);
}

TEST_CASE("marks that are requested in a callback are owed once per stream") {
  Lagging bench;
  Stream one{bench.ordered};
  Stream two{bench.ordered};
  bench.device.callback(one.handle(), [&] {
    for (int i = 0; i < kFew; ++i) CHECK(one.mark() == Point{one.id(), 1});
    two.mark();
  });
  CHECK(calls(bench.device, Call::record, [&] { bench.ordered.poll(); }) == 2);
  bench.device.callback(one.handle(), [&] { one.mark(); });
  CHECK(calls(bench.device, Call::record, [&] { bench.ordered.poll(); }) == 1);
  CHECK(bench.ordered.ledger().next(one.id()) == 3);
}

TEST_CASE("an owed mark that cannot be recorded stays owed, and so do the other marks") {
  Lagging bench;
  struct Refuse final : DeviceObserver {
    void before(Call call) override {
      if (call == Call::record) throw DeviceError{ErrorCode::unknown, "record", "injected"};
    }
  } refuse;
  Stream one{bench.ordered};
  Stream two{bench.ordered};
  bench.device.callback(one.handle(), [&] {
    one.mark();
    two.mark();
  });
  bench.device.add_observer(refuse);
  CHECK_THROWS_AS(bench.ordered.poll(), DeviceError);
  bench.device.remove_observer(refuse);
  CHECK(calls(bench.device, Call::record, [&] { bench.ordered.poll(); }) == 2);
  CHECK(bench.ordered.ledger().next(one.id()) == 3);  // the record that failed has a number, too
  CHECK(bench.ordered.ledger().next(two.id()) == 2);
}

TEST_CASE("a mark on the legacy stream costs the same with 10 and 10,000 blocking streams") {
  const int k = GENERATE(10, 10'000);
  Lagging bench;
  const StreamRef legacy = bench.ordered.attach(bench.device.legacy_stream());
  std::vector<Stream> streams;
  for (int i = 0; i < k; ++i) streams.emplace_back(bench.ordered, StreamOptions{.blocking = true});
  const Point before{streams[5].id(), bench.ordered.ledger().next(streams[5].id())};
  std::uint64_t taken = 0;
  for (int i = 0; i < 100; ++i) {
    taken += steps([&] { bench.ordered.mark(legacy); });
    streams[static_cast<std::size_t>(i) % streams.size()].mark();
  }
  CHECK(taken < 100 * 10);
  CHECK(steps([&] { bench.ordered.poll(); }) < 5'000);
  CHECK(bench.ordered.ledger().completed(before));
  CHECK(bench.ordered.ledger().outstanding_markers() == 0);
}

TEST_CASE("a device that lags by 300 markers takes as many events, and few queries per mark") {
  const int n = GENERATE(kFew, kMany);
  Lagging bench;
  Stream stream{bench.ordered};
  bench.device.behind = 300;
  std::uint64_t most = 0;
  for (int i = 0; i < n; ++i) {
    most = std::max(most, calls(bench.device, Call::query_event, [&] { stream.mark(); }));
  }
  CHECK(bench.device.calls(Call::create_event) <= 300 + 2 * 16);
  CHECK(most < 32);
  CHECK(bench.device.calls(Call::query_event) < static_cast<std::uint64_t>(n));
}

TEST_CASE("streams that are marked in turn take a bounded number of events") {
  Lagging bench;
  std::vector<Stream> streams;
  for (int i = 0; i < kFew; ++i) streams.emplace_back(bench.ordered);
  bench.device.behind = 100;
  for (int i = 0; i < kMany; ++i) streams[static_cast<std::size_t>(i) % streams.size()].mark();
  CHECK(bench.device.calls(Call::create_event) < 2 * kFew);
}

TEST_CASE("300,000 one-shot streams leave no tracked stream, and slots are reused") {
  Lagging bench;
  Stream main{bench.ordered};
  bench.device.behind = 100;
  std::uint32_t slots = 0;
  for (int i = 0; i < 300'000; ++i) {
    Stream once{bench.ordered};
    slots = std::max(slots, once.id().slot);
    main.wait_stream(once);
  }
  CHECK(slots < 500);
  CHECK(bench.device.calls(Call::create_event) < 1'000);
  bench.device.behind = 0;
  bench.ordered.poll();
  CHECK(bench.ordered.ledger().tracked_streams() == 1);
}

TEST_CASE("a raw stream whose handle was reused is forgotten once the device is synchronized") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device();
  OrderedDevice ordered{device};
  for (int i = 0; i < 100; ++i) {
    const StreamHandle raw = device.create_stream();
    const StreamRef stream = ordered.resolve(raw);
    const Point used{stream.id(), ordered.ledger().next(stream.id())};
    device.destroy_stream(raw);
    const StreamHandle next = device.create_stream();
    const StreamRef successor = ordered.resolve(next);
    CHECK(successor.id() != stream.id());
    CHECK_FALSE(ordered.ledger().ordered(used, successor.id()));
    device.destroy_stream(next);
  }
  CHECK(ordered.ledger().tracked_streams() == 200);
  ordered.synchronize();
  CHECK(ordered.ledger().tracked_streams() == 1);
}
