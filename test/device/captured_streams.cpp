// What an ordered device does while a stream is captured into a graph.

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "millrace/device/stream.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "test/support/catch.hpp"
#include "test/support/forwarding_device.hpp"
#include "test/support/plain_device.hpp"

namespace millrace::test {
namespace {

struct Rig {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  OrderedDevice ordered{device};
  Stream main{ordered, {.name = "main"}}, copy{ordered, {.name = "copy"}};
};

/// Records whether a stream is destroyed while the driver is asked whether it is captured.
class SlowToAnswer final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  std::atomic<bool> is_asked{false}, destroyed_meanwhile{false};

 private:
  CaptureStatus do_capture_status(StreamHandle stream) override {
    is_asked = true;
    for (int i = 0; i < 20 && !destroyed_meanwhile; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    is_asked = false;
    return ForwardingDevice::do_capture_status(stream);
  }
  void do_destroy_stream(StreamHandle stream) override {
    if (is_asked) destroyed_meanwhile = true;
    ForwardingDevice::do_destroy_stream(stream);
  }
};

}  // namespace

TEST_CASE("a mark on a captured stream is owed until the capture ends") {
  Rig rig;
  const StreamRef captured = rig.ordered.begin_capture(rig.main);
  rig.device.set_capture_status(rig.main.handle(), CaptureStatus::active);
  const Point first = rig.main.mark(), second = rig.main.mark();
  CHECK(first == second);
  CHECK(rig.device.calls(Call::record) == 0);
  CHECK_FALSE(rig.ordered.ledger().earliest_covering(first));
  rig.device.set_capture_status(rig.main.handle(), CaptureStatus::none);
  rig.ordered.end_capture(captured);
  CHECK(rig.device.calls(Call::record) == 1);
  CHECK(rig.ordered.ledger().earliest_covering(first));
}

TEST_CASE("nothing waits at the tail of a captured stream, and it is made to wait for nothing") {
  Rig rig;
  const Point marked = rig.main.mark();
  const Point later{rig.main.id(), rig.ordered.ledger().next(rig.main.id())};
  const Point of_copy{rig.copy.id(), rig.ordered.ledger().next(rig.copy.id())};
  CHECK(rig.ordered.earliest_wait(rig.copy.id(), later) == OrderedDevice::kTail);
  const StreamRef captured = rig.ordered.begin_capture(rig.main);
  CHECK_FALSE(rig.ordered.earliest_wait(rig.copy.id(), later));
  CHECK_FALSE(rig.ordered.wait_for(rig.copy, later));
  CHECK_FALSE(rig.ordered.synchronize(later));
  CHECK_FALSE(rig.ordered.earliest_wait(rig.main.id(), of_copy));
  CHECK(rig.ordered.wait_for(rig.copy, marked));  // recorded before the capture
  rig.ordered.end_capture(captured);
  CHECK(rig.ordered.wait_for(rig.copy, later));
}

TEST_CASE("recording on a captured stream, and synchronizing the device, are refused uncalled") {
  Rig rig;
  const StreamRef captured = rig.ordered.begin_capture(rig.main);
  const std::uint64_t calls = rig.device.calls();
  const auto refused = [](const auto& call) {
    try {
      call();
    } catch (const DeviceError& error) {
      return error.code() == ErrorCode::capture;
    }
    return false;
  };
  Event event;
  CHECK(refused([&] { rig.ordered.record(event, rig.main); }));
  CHECK(refused([&] { rig.ordered.synchronize(); }));
  CHECK(rig.device.calls() == calls);
  rig.ordered.end_capture(captured);
  rig.ordered.record(event, rig.main);
  rig.ordered.synchronize();
}

TEST_CASE("a capture that is reported twice ends with the second end") {
  Rig rig;
  const StreamRef captured = rig.ordered.begin_capture(rig.main);
  CHECK(rig.ordered.begin_capture(rig.main).id() == captured.id());
  rig.ordered.end_capture(captured);
  CHECK(rig.ordered.captured(rig.main.id()));
  rig.ordered.end_capture(captured);
  CHECK_FALSE(rig.ordered.captured(rig.main.id()));
  CHECK_FALSE(rig.ordered.capturing());
}

TEST_CASE("a stream that goes while it is captured leaves no capture behind") {
  Rig rig;
  StreamRef captured = rig.copy;
  {
    Stream side{rig.ordered};
    captured = rig.ordered.begin_capture(side);
  }
  rig.ordered.end_capture(captured);
  CHECK_FALSE(rig.ordered.capturing());
  Stream next{rig.ordered};  // perhaps in the same slot
  CHECK_FALSE(rig.ordered.captured(next.id()));
}

TEST_CASE("a captured raw handle is resolved without the driver, which refuses to be asked") {
  Rig rig;
  const StreamHandle raw = rig.device.create_stream();
  const StreamRef captured = rig.ordered.begin_capture(raw);
  rig.device.set_capture_status(raw, CaptureStatus::active);
  CHECK_THROWS_AS(rig.device.stream_id(raw), DeviceError);
  CHECK(rig.ordered.resolve(raw).id() == captured.id());
  rig.device.set_capture_status(raw, CaptureStatus::none);
  rig.ordered.end_capture(captured);
  CHECK(rig.ordered.resolve(raw).id() == captured.id());
}

TEST_CASE("a nominal stream is ordered after what is complete and nothing else") {
  Rig rig;
  const Point work{rig.main.id(), rig.ordered.ledger().next(rig.main.id())};
  const std::uint64_t calls = rig.device.calls();
  const StreamRef idle = rig.ordered.open_nominal("idle"), busy = rig.ordered.open_nominal("busy");
  CHECK(rig.ordered.name(idle.id()) == "idle");
  CHECK_FALSE(rig.ordered.ledger().ordered(work, idle.id()));
  CHECK_FALSE(rig.ordered.wait_for(rig.main, {busy.id(), 1}));
  const Point of_idle{idle.id(), rig.ordered.ledger().next(idle.id())};
  const Point of_busy{busy.id(), rig.ordered.ledger().next(busy.id())};
  rig.ordered.close_nominal(idle, true);
  rig.ordered.close_nominal(busy, false);
  CHECK(rig.device.calls() == calls);
  CHECK(rig.ordered.ledger().completed(of_idle));
  CHECK_FALSE(rig.ordered.ledger().completed(of_busy));
  rig.ordered.synchronize();
  CHECK(rig.ordered.ledger().completed(of_busy));
  CHECK(rig.ordered.ledger().completed(work));
  CHECK(rig.ordered.ledger().tracked_streams() == 2);
}

TEST_CASE("a stream that is to be covered is there while the driver is asked about it") {
  VirtualMachine machine;
  SlowToAnswer device{machine.add_device()};
  OrderedDevice ordered{device};
  auto side = std::make_unique<Stream>(ordered);
  const Point point{side->id(), ordered.ledger().next(side->id())};
  std::thread ending{[&] {
    while (!device.is_asked) std::this_thread::yield();
    side.reset();
  }};
  CHECK(ordered.cover(point).has_value());
  ending.join();
  CHECK_FALSE(device.destroyed_meanwhile);
  CHECK_FALSE(ordered.cover(point).has_value());  // its last marker covers the point
}

}  // namespace millrace::test
