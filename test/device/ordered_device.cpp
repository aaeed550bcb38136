#include <chrono>
#include <functional>
#include <future>
#include <utility>

#include "millrace/device/checking.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/forwarding_device.hpp"
#include "test/support/threaded_device.hpp"

using namespace millrace;
using millrace::test::Bench;

namespace {

/// Counts the driver's queries of stream ids.
class AskedDevice final : public millrace::test::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  int asked = 0;

 private:
  std::uint64_t do_stream_id(StreamHandle stream) override {
    ++asked;
    return ForwardingDevice::do_stream_id(stream);
  }
};

/// Calls `before` in the first query of an event. The event is recorded again there, so the answer
/// is not complete.
class ReusingDevice final : public millrace::test::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::function<void()> before;
  EventHandle queried, recorded;  // the latest events of each call

 private:
  void do_record(EventHandle event, StreamHandle stream) override {
    recorded = event;
    ForwardingDevice::do_record(event, stream);
  }
  bool do_query(EventHandle event) override {
    queried = event;
    if (before == nullptr) return ForwardingDevice::do_query(event);
    std::exchange(before, nullptr)();
    return false;
  }
};

Point next(Bench& bench, const Stream& stream) {
  return {stream.id(), bench.ordered.ledger().next(stream.id())};
}

/// Refuses records while `captured` is set, as if other code captured its streams.
class CapturedDevice final : public millrace::test::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  bool captured = false;

 private:
  void do_record(EventHandle event, StreamHandle stream) override {
    if (captured) throw DeviceError{ErrorCode::capture, "record", "the stream is captured"};
    ForwardingDevice::do_record(event, stream);
  }
};

}  // namespace

TEST_CASE("a stream that waits for an event is ordered after what was enqueued before it") {
  Bench bench;
  const Point used = next(bench, bench.copy);
  Event event;
  bench.ordered.record(event, bench.copy);
  CHECK_FALSE(bench.ordered.ledger().ordered(used, bench.main.id()));
  bench.ordered.wait(bench.main, event);
  CHECK(bench.ordered.ledger().ordered(used, bench.main.id()));
  CHECK_FALSE(bench.ordered.ledger().ordered(next(bench, bench.copy), bench.main.id()));
}

TEST_CASE("an event that is recorded again keeps what earlier waiters and copies got") {
  Bench bench;
  Event event;
  bench.ordered.record(event, bench.copy);
  const Event kept = event;
  const Point later = next(bench, bench.copy);
  bench.ordered.record(event, bench.copy);
  bench.ordered.wait(bench.main, kept);
  CHECK_FALSE(bench.ordered.ledger().ordered(later, bench.main.id()));
  bench.ordered.wait(bench.main, event);
  CHECK(bench.ordered.ledger().ordered(later, bench.main.id()));
}

TEST_CASE("an event that was never recorded orders nothing and is complete") {
  Bench bench;
  const Event event;
  const Point used = next(bench, bench.copy);
  bench.ordered.wait(bench.main, event);
  CHECK(bench.ordered.query(event));
  CHECK_FALSE(bench.ordered.ledger().ordered(used, bench.main.id()));
}

TEST_CASE("a caller's own event that is recorded again cannot be waited for as the old marker") {
  Bench bench;
  const EventHandle raw = bench.device.create_event();
  const Point used = next(bench, bench.copy);
  bench.ordered.record(raw, bench.copy);
  bench.ordered.record(raw, bench.main);  // no longer covers the copy stream
  Stream third{bench.ordered, {.name = "third"}};
  bench.ordered.wait(third, raw);
  CHECK_FALSE(bench.ordered.ledger().ordered(used, third.id()));
  CHECK(bench.ordered.wait_for(third, used));  // on another marker of copy
  CHECK(bench.ordered.ledger().ordered(used, third.id()));
  bench.ordered.forget(raw);
  bench.device.destroy_event(raw);
}

TEST_CASE("a caller's event that is recorded again during the wait orders nothing") {
  Bench bench;
  const EventHandle raw = bench.device.create_event();
  const Point used = next(bench, bench.copy);
  bench.ordered.record(raw, bench.copy);
  struct RecordAgain final : DeviceObserver {
    explicit RecordAgain(std::function<void()> call) : record(std::move(call)) {}
    void before(Call call) override {
      if (call == Call::wait) record();
    }
    std::function<void()> record;
  } again{[&] { bench.ordered.record(raw, bench.main); }};
  Stream third{bench.ordered, {.name = "third"}};
  bench.device.add_observer(again);
  bench.ordered.wait(third, raw);  // the driver waits for the record on main
  bench.device.remove_observer(again);
  CHECK_FALSE(bench.ordered.ledger().ordered(used, third.id()));
  CHECK(bench.ordered.wait_for(third, used));
  bench.ordered.forget(raw);
  bench.device.destroy_event(raw);
}

namespace {

/// Records a caller's event once more, on main, right before the next call of a kind.
class RecordAgainBefore final : public DeviceObserver {
 public:
  RecordAgainBefore(Bench& bench, Call call, EventHandle event)
      : bench_(bench), call_(call), event_(event) {
    bench_.device.add_observer(*this);
  }
  ~RecordAgainBefore() override { bench_.device.remove_observer(*this); }
  void before(Call call) override {
    if (call != call_ || std::exchange(done_, true)) return;
    bench_.ordered.record(event_, bench_.main);
    bench_.device.synchronize(bench_.main.handle());
  }

 private:
  Bench& bench_;
  Call call_;
  EventHandle event_;
  bool done_ = false;
};

}  // namespace

TEST_CASE("a caller's event that is recorded again before a call completes no earlier marker") {
  Bench bench;
  const EventHandle raw = bench.device.create_event();
  bench.device.launch({.name = "work",
                       .views = {},
                       .cost = {.fixed = std::chrono::hours{10}},
                       .host = {},
                       .cuda = {}},
                      bench.copy.handle());
  const Point used = next(bench, bench.copy);
  bench.ordered.record(raw, bench.copy);
  const auto call = GENERATE(Call::query_event, Call::synchronize_event, Call::wait);
  CAPTURE(static_cast<int>(call));
  Stream third{bench.ordered, {.name = "third"}};
  const auto begin = bench.machine.now();
  {
    const RecordAgainBefore again{bench, call, raw};  // main is idle: its record is complete
    if (call == Call::query_event) bench.ordered.poll();
    if (call == Call::synchronize_event) CHECK(bench.ordered.synchronize(used));
    if (call == Call::wait) CHECK(bench.ordered.wait_for(third, used));
  }
  if (call == Call::wait) {
    bench.device.synchronize(third.handle());  // it waits for the work on copy
    CHECK(bench.ordered.ledger().ordered(used, third.id()));
  }
  const bool waited = bench.machine.now() - begin >= std::chrono::hours{9};
  CHECK(waited == (call != Call::query_event));
  CHECK((waited || !bench.ordered.ledger().completed(used)));
  bench.ordered.forget(raw);
  bench.device.destroy_event(raw);
}

TEST_CASE("of two threads that record one caller's event, the driver's last record counts") {
  test::ThreadedDevice device{std::size_t{1} << 20};
  OrderedDevice ordered{device};
  Stream main{ordered}, copy{ordered}, third{ordered};
  const EventHandle raw = device.create_event();
  const Point used{copy.id(), ordered.ledger().next(copy.id())};
  // Between the driver's record on copy and the end of that call, a thread records on main.
  struct OtherThread final : DeviceObserver {
    explicit OtherThread(std::function<void()> call) : record(std::move(call)) {}
    void recorded(EventHandle, StreamHandle) override {
      if (other.valid()) return;
      other = std::async(std::launch::async, record);
      static_cast<void>(other.wait_for(std::chrono::milliseconds{200}));
    }
    std::function<void()> record;
    std::future<void> other;
  } observer{[&] { ordered.record(raw, main); }};
  device.add_observer(observer);
  ordered.record(raw, copy);
  observer.other.get();
  device.remove_observer(observer);
  ordered.wait(third, raw);  // the driver waits for the record on main
  CHECK_FALSE(ordered.ledger().ordered(used, third.id()));
  ordered.forget(raw);
  device.destroy_event(raw);
}

TEST_CASE("a poll goes on if its first marker completes and the event is recorded again") {
  Bench bench;
  ReusingDevice device{bench.device};
  OrderedDevice ordered{device};
  const Stream main{ordered}, copy{ordered};
  const Point first = ordered.mark(main), second = ordered.mark(main);
  bench.device.synchronize();
  device.before = [&] {
    REQUIRE(ordered.synchronize(first));
    static_cast<void>(ordered.mark(copy));
    REQUIRE(device.recorded.value == device.queried.value);  // the event of `first`
  };
  ordered.poll();
  CHECK(ordered.ledger().completed(second));
}

TEST_CASE("the earliest covering marker is waited for") {
  Bench bench;
  const Point used = next(bench, bench.copy);
  bench.copy.mark();
  const Point later = next(bench, bench.copy);
  bench.copy.mark();
  CHECK(bench.ordered.wait_for(bench.main, used));
  CHECK(bench.ordered.ledger().ordered(used, bench.main.id()));
  CHECK_FALSE(bench.ordered.ledger().ordered(later, bench.main.id()));
}

TEST_CASE("a call that fails publishes nothing") {
  Bench bench;
  struct Refuse final : DeviceObserver {
    void before(Call call) override {
      if (call == Call::record) throw DeviceError{ErrorCode::unknown, "record", "injected"};
    }
  } refuse;
  const Point used = next(bench, bench.copy);
  bench.device.add_observer(refuse);
  CHECK_THROWS_AS(bench.copy.mark(), DeviceError);
  bench.device.remove_observer(refuse);
  CHECK_FALSE(bench.ordered.ledger().earliest_covering(used).has_value());
  bench.copy.mark();
  CHECK(bench.ordered.ledger().earliest_covering(used).has_value());
}

TEST_CASE("a raw handle is resolved at each call, and its successor is another stream") {
  Bench bench;
  const StreamHandle raw = bench.device.create_stream();
  const StreamRef first = bench.ordered.resolve(raw);
  CHECK(bench.ordered.resolve(raw).id() == first.id());
  bench.device.destroy_stream(raw);
  const StreamHandle again = bench.device.create_stream();
  CHECK(bench.ordered.resolve(again).id() != first.id());
  bench.device.destroy_stream(again);
}

TEST_CASE("the driver is asked for the legacy stream once, until somebody attaches it") {
  Bench bench;
  AskedDevice device{bench.device};
  OrderedDevice ordered{device};
  const StreamHandle handle = device.legacy_stream();
  const StreamRef raw = ordered.resolve(handle);
  for (int i = 0; i < 3; ++i) CHECK(ordered.resolve(handle).id() == raw.id());
  CHECK(device.asked == 1);
  const StreamRef attached = ordered.attach(handle, {.name = "legacy"});
  CHECK(attached.id() == raw.id());
  CHECK(ordered.resolve(handle).id() == raw.id());
  ordered.detach(attached);
  const StreamRef after = ordered.resolve(handle);
  CHECK(after.id() != raw.id());
  CHECK(ordered.resolve(handle).id() == after.id());
}

TEST_CASE("a marker that a capture forbids is made in a later call that names the stream") {
  Bench bench;
  CapturedDevice device{bench.device};
  OrderedDevice ordered{device, Completion::polled};
  const StreamHandle handle = device.create_stream();
  const StreamRef raw = ordered.resolve(handle);
  const Ledger& ledger = ordered.ledger();
  const Point used{raw.id(), ledger.next(raw.id())};
  CHECK_FALSE(ordered.cover(used).has_value());  // a marker is requested
  device.captured = true;
  static_cast<void>(ordered.resolve(handle));
  CHECK_FALSE(ledger.earliest_covering(used).has_value());
  device.captured = false;
  static_cast<void>(ordered.resolve(handle));
  CHECK(ledger.earliest_covering(used).has_value());
  device.destroy_stream(handle);
}

TEST_CASE("a marker that an announced capture forbids is made after it") {
  Bench bench;
  OrderedDevice& ordered = bench.ordered;
  const StreamHandle handle = bench.device.create_stream();
  const StreamRef raw = ordered.resolve(handle);
  const Point used{raw.id(), ordered.ledger().next(raw.id())};
  CHECK_FALSE(ordered.cover(used).has_value());  // a marker is requested
  const StreamRef captured = ordered.begin_capture(raw);
  static_cast<void>(ordered.resolve(handle));
  CHECK_FALSE(ordered.ledger().earliest_covering(used).has_value());
  ordered.end_capture(captured);
  static_cast<void>(ordered.resolve(handle));
  CHECK(ordered.ledger().earliest_covering(used).has_value());
  bench.device.destroy_stream(handle);
}

TEST_CASE("synchronizing a stream says nothing of what the legacy stream was given since") {
  Bench bench;
  const StreamRef legacy = bench.ordered.attach(bench.device.legacy_stream(), {.name = "legacy"});
  Stream blocking{bench.ordered, {.blocking = true, .name = "blocking"}};
  const Ledger& ledger = bench.ordered.ledger();
  const Point used{legacy.id(), ledger.next(legacy.id())};
  bench.ordered.mark(legacy);
  blocking.synchronize();
  CHECK_FALSE(ledger.completed(used));
  bench.ordered.synchronize(legacy);
  CHECK(ledger.completed(used));
}

TEST_CASE("a raw handle that is attached later stays the same stream, with what was freed there") {
  Bench bench;
  const StreamHandle handle = bench.device.create_stream();
  const StreamRef raw = bench.ordered.resolve(handle);
  const Ledger& ledger = bench.ordered.ledger();
  const Point used{raw.id(), ledger.next(raw.id())};
  const StreamRef attached = bench.ordered.attach(handle, {.name = "known"});
  CHECK(attached.id() == raw.id());
  CHECK(bench.ordered.name(attached.id()) == "known");
  CHECK(bench.ordered.wait_for(bench.main, used));
  CHECK(ledger.ordered(used, bench.main.id()));
  bench.ordered.detach(attached);
  bench.device.destroy_stream(handle);
}

TEST_CASE("an attached stream is ordered with the legacy stream if the driver has it so") {
  Bench bench;
  const bool blocking = GENERATE(true, false);
  const bool used_before = GENERATE(true, false);
  const StreamRef legacy = bench.ordered.attach(bench.device.legacy_stream(), {.name = "legacy"});
  const StreamHandle handle = bench.device.create_stream({.blocking = blocking});
  if (used_before) bench.ordered.mark(handle);
  const StreamRef stream = bench.ordered.attach(handle);
  const Ledger& ledger = bench.ordered.ledger();
  CHECK(ledger.ordered({legacy.id(), ledger.next(legacy.id())}, stream.id()) == blocking);
  CHECK(ledger.ordered({stream.id(), ledger.next(stream.id())}, legacy.id()) == blocking);
  bench.ordered.detach(stream);
  bench.device.destroy_stream(handle);
}

TEST_CASE("a raw handle is not relied on to be ordered with the legacy stream") {
  Bench bench;
  const StreamRef legacy = bench.ordered.attach(bench.device.legacy_stream(), {.name = "legacy"});
  const StreamHandle handle = bench.device.create_stream({.blocking = false});
  const StreamRef raw = bench.ordered.resolve(handle);
  const Ledger& ledger = bench.ordered.ledger();
  CHECK_FALSE(ledger.ordered({legacy.id(), ledger.next(legacy.id())}, raw.id()));
  CHECK_FALSE(ledger.ordered({raw.id(), ledger.next(raw.id())}, legacy.id()));
  bench.device.destroy_stream(handle);
}

TEST_CASE("what was freed on a stream that is gone can still be waited for") {
  Bench bench;
  Point used;
  {
    Stream brief{bench.ordered, {.name = "brief"}};
    used = next(bench, brief);
  }
  CHECK(bench.ordered.wait_for(bench.main, used));
  CHECK(bench.ordered.ledger().ordered(used, bench.main.id()));
}

TEST_CASE("nothing waits for a stream that was only seen as a raw handle") {
  Bench bench;
  const StreamHandle raw = bench.device.create_stream();
  const StreamRef seen = bench.ordered.resolve(raw);
  const Point used{seen.id(), bench.ordered.ledger().next(seen.id())};
  CHECK_FALSE(bench.ordered.earliest_wait(bench.main.id(), used).has_value());
  CHECK_FALSE(bench.ordered.wait_for(bench.main, used));
  bench.device.destroy_stream(raw);
}

TEST_CASE("synchronizing and polling tell what has completed") {
  Bench bench;
  const Point used = next(bench, bench.copy);
  bench.copy.mark();
  CHECK_FALSE(bench.ordered.ledger().completed(used));
  bench.machine.executor().spend(std::chrono::milliseconds{1});
  bench.ordered.poll();
  CHECK(bench.ordered.ledger().completed(used));
  const Point more = next(bench, bench.main);
  bench.main.synchronize();
  CHECK(bench.ordered.ledger().completed(more));
  const Point all = next(bench, bench.copy);
  bench.ordered.synchronize();
  CHECK(bench.ordered.ledger().completed(all));
}

TEST_CASE("a mark asked for in a host callback is owed and made later") {
  Bench bench;
  const Point used = next(bench, bench.copy);
  bench.device.callback(bench.copy.handle(), [&] { bench.ordered.mark(bench.copy); });
  bench.device.synchronize();
  CHECK_FALSE(bench.ordered.ledger().earliest_covering(used).has_value());
  bench.ordered.poll();
  CHECK((bench.ordered.ledger().completed(used) ||
         bench.ordered.ledger().earliest_covering(used).has_value()));
}

TEST_CASE("markers that were passed give their events back") {
  Bench bench;
  for (int i = 0; i < 5000; ++i) {
    bench.main.mark();
    bench.machine.executor().spend(std::chrono::microseconds{20});
  }
  CHECK(bench.device.calls(Call::create_event) < 600);
}

TEST_CASE("one-shot streams leave nothing behind") {
  Bench bench;
  for (int i = 0; i < 300; ++i) {
    Stream once{bench.ordered};
    bench.main.wait_stream(once);
  }
  bench.ordered.synchronize();
  CHECK(bench.ordered.ledger().frontier(bench.main.id()).size() < 3);
  CHECK(bench.device.calls(Call::create_event) < 600);
}

TEST_CASE("a stream is waited for by one thread while another one ends it") {
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    VirtualMachine machine{{.schedule = VirtualMachine::Schedule::adversarial, .seed = seed}};
    VirtualDevice& device = machine.add_device();
    OrderedDevice ordered{device};
    Stream waiter{ordered};
    auto ending = std::make_unique<Stream>(ordered);
    const Point point{ending->id(), ordered.ledger().next(ending->id())};
    const auto other = machine.executor().spawn("other", [&] { ending.reset(); });
    CAPTURE(seed);
    CHECK_NOTHROW(ordered.wait_for(waiter, point));
    other->join();
    CHECK(ordered.wait_for(waiter, point));
  }
}

TEST_CASE("a thread that goes by what another thread saw complete is ordered after it") {
  Bench bench;
  CheckingObserver checking;
  checking.attach(bench.device);
  checking.attach(bench.machine.executor());
  constexpr std::size_t kBytes = 100;
  void* const memory = bench.device.allocate(kBytes);
  void* const pinned = bench.device.allocate_host(kBytes);
  bench.device.copy(memory, pinned, kBytes, CopyKind::host_to_device, bench.copy.handle());
  const Point copied = bench.copy.mark();
  const auto other = bench.machine.executor().spawn("other", [&] { bench.copy.synchronize(); });
  bench.machine.executor().spend(std::chrono::milliseconds{1});
  REQUIRE(bench.ordered.ledger().completed(copied));
  const auto before = bench.device.calls(Call::wait) + bench.device.calls(Call::query_event);
  SECTION("it makes a stream wait, which needs no call") {
    CHECK(bench.ordered.wait_for(bench.main, copied));
    bench.device.fill(memory, 1, kBytes, bench.main.handle());
    CHECK(checking.races().empty());
  }
  SECTION("it waits itself, which takes no time") {
    CHECK(bench.ordered.synchronize(copied));
    checking.host_writes(pinned, kBytes, "refill");
    CHECK(checking.races().empty());
  }
  SECTION("it polls") {
    CHECK(bench.ordered.poll(copied));
    checking.host_writes(pinned, kBytes, "refill");
    CHECK(checking.races().empty());
  }
  SECTION("it does not ask") {
    checking.host_writes(pinned, kBytes, "refill");
    CHECK(checking.races().size() == 1);
  }
  CHECK(bench.device.calls(Call::wait) + bench.device.calls(Call::query_event) == before);
  other->join();
}
