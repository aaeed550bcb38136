#include "millrace/device/fault.hpp"

#include <vector>

#include "test/support/catch.hpp"
#include "test/support/plain_device.hpp"

using namespace millrace;

namespace {

struct FaultBench {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(test::plain_options());
  StreamHandle stream = device.create_stream();
  EventHandle event = device.create_event();
  FaultInjector faults{device};

  bool record_fails() {
    try {
      device.record(event, stream);
    } catch (const DeviceError&) {
      return true;
    }
    return false;
  }
};

}  // namespace

TEST_CASE("the n-th call of a kind fails once, and calls of other kinds do not count") {
  FaultBench bench;
  bench.faults.fail(Call::record, 2, ErrorCode::unknown);
  CHECK_FALSE(bench.record_fails());
  CHECK(bench.device.query(bench.stream));
  CHECK(bench.record_fails());
  CHECK_FALSE(bench.record_fails());
  CHECK(bench.faults.injected() == 1);
}

TEST_CASE("the n-th call of any kind fails, and is not made") {
  FaultBench bench;
  bench.faults.fail_call(2, ErrorCode::out_of_memory);
  (void)bench.device.query(bench.stream);
  CHECK_THROWS_WITH(bench.device.allocate(100), "allocate: out of memory: injected");
  CHECK(bench.device.memory_info().free == bench.device.memory_info().total);
}

TEST_CASE("each call of a kind fails until the fault is cleared") {
  FaultBench bench;
  bench.faults.fail_each(Call::record, ErrorCode::unknown);
  CHECK(bench.record_fails());
  CHECK(bench.record_fails());
  bench.faults.clear();
  CHECK_FALSE(bench.record_fails());
}

TEST_CASE("a lost device stays lost until the faults are cleared") {
  FaultBench bench;
  bench.faults.fail(Call::record, 1, ErrorCode::device_lost);
  CHECK(bench.record_fails());
  CHECK(bench.record_fails());
  CHECK_THROWS_AS(bench.device.query(bench.stream), DeviceError);
  bench.faults.clear();
  CHECK_FALSE(bench.record_fails());
}

TEST_CASE("an observer gets the end of each call whose beginning it got") {
  struct Listener : DeviceObserver {
    void before(Call call) override { open.push_back(call); }
    void after(Call call) override {
      REQUIRE_FALSE(open.empty());
      CHECK(open.back() == call);
      open.pop_back();
      ++ended;
    }
    std::vector<Call> open;
    std::size_t ended = 0;
  };
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(test::plain_options());
  Listener first;
  Listener last;
  device.add_observer(first);
  FaultInjector faults{device};
  device.add_observer(last);
  const EventHandle event = device.create_event();
  faults.fail(Call::query_event, 1, ErrorCode::unknown);
  CHECK_THROWS_AS(device.query(event), DeviceError);    // not made
  CHECK_THROWS_AS(device.free(&machine), DeviceError);  // made, then refused
  CHECK(device.query(event));
  CHECK(first.open.empty());
  CHECK(last.open.empty());
  CHECK(first.ended == 4);
  CHECK(last.ended == 3);
  device.remove_observer(first);
  device.remove_observer(last);
}
