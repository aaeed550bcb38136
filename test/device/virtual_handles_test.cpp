#include <chrono>

#include "test/support/catch.hpp"
#include "test/support/plain_device.hpp"

using namespace std::chrono_literals;
using namespace millrace;
using Catch::Matchers::ContainsSubstring;
using test::fixed_kernel;
using test::plain_options;
using test::Timeline;

namespace {

template <typename Call>
ErrorCode code_of(Call call) {
  try {
    call();
  } catch (const DeviceError& error) {
    return error.code();
  }
  return ErrorCode::unknown;
}

}  // namespace

TEST_CASE("the handle of a destroyed stream is used again, its id is not") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  const StreamHandle first = device.create_stream();
  const std::uint64_t first_id = device.stream_id(first);
  device.destroy_stream(first);
  const StreamHandle second = device.create_stream();
  CHECK(second == first);
  CHECK(device.stream_id(second) != first_id);
}

TEST_CASE("the handle of a destroyed event is used again and knows nothing of the old one") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  const StreamHandle stream = device.create_stream();
  const EventHandle first = device.create_event();
  device.launch(fixed_kernel("k", 100ns), stream);
  device.record(first, stream);
  device.destroy_event(first);
  const EventHandle second = device.create_event();
  CHECK(second == first);
  CHECK(device.query(second));
}

TEST_CASE("a destroyed stream's work still runs, and the device waits for it") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  const Timeline timeline{machine};
  const StreamHandle stream = device.create_stream();
  device.launch(fixed_kernel("k", 100ns), stream);
  device.destroy_stream(stream);
  device.synchronize();
  CHECK(timeline.at("k").end == 100ns);
  CHECK(machine.now() == 100ns);
}

TEST_CASE("an event that is destroyed after a wait on it still holds the waiter back") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  const Timeline timeline{machine};
  const StreamHandle one = device.create_stream();
  const StreamHandle two = device.create_stream();
  const EventHandle event = device.create_event();
  device.launch(fixed_kernel("a", 100ns), one);
  device.record(event, one);
  device.wait(two, event);
  device.destroy_event(event);
  device.launch(fixed_kernel("b", 1ns), two);
  device.synchronize();
  CHECK(timeline.at("b").begin == 100ns);
}

TEST_CASE("what the device does not know is refused, with a text that names it") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  VirtualDevice& other = machine.add_device(plain_options());
  const StreamHandle stream = device.create_stream();
  const EventHandle event = device.create_event();
  int variable = 0;
  void* const memory = device.allocate(100);
  void* const pinned = device.allocate_host(100);
  const StreamHandle gone = device.create_stream();
  device.destroy_stream(gone);

  CHECK_THROWS_WITH(device.synchronize(gone), ContainsSubstring("is not a stream (destroyed?)"));
  CHECK_THROWS_WITH(device.synchronize(StreamHandle{&variable}),
                    ContainsSubstring("is not a stream"));
  CHECK_THROWS_WITH(device.query(EventHandle{&variable}), ContainsSubstring("is not an event"));
  CHECK_THROWS_WITH(other.synchronize(stream),
                    ContainsSubstring("belongs to device 0, not to device 1"));
  CHECK_THROWS_WITH(other.record(event, other.create_stream()),
                    ContainsSubstring("another device"));
  CHECK_THROWS_WITH(device.destroy_stream(device.legacy_stream()),
                    ContainsSubstring("cannot be destroyed"));
  CHECK_THROWS_WITH(device.destroy_stream(device.per_thread_stream()),
                    ContainsSubstring("cannot be destroyed"));
  CHECK_THROWS_WITH(device.free(&variable), ContainsSubstring("nothing is allocated at"));
  CHECK_THROWS_WITH(device.free(static_cast<char*>(memory) + 8),
                    ContainsSubstring("nothing is allocated at"));
  CHECK_THROWS_WITH(device.free_host(&variable), ContainsSubstring("nothing is allocated at"));
  CHECK_THROWS_WITH(device.free_async(memory, stream),
                    ContainsSubstring("nothing is allocated at"));
  CHECK_THROWS_WITH(device.allocate(0), ContainsSubstring("asked for 0 bytes"));
  CHECK_THROWS_WITH(device.fill(memory, 0, (std::size_t{2} << 20) + 1, stream),
                    ContainsSubstring("not allocated on the device"));
  CHECK_THROWS_WITH(device.fill(pinned, 0, 4, stream), ContainsSubstring("not device memory"));
  CHECK_THROWS_WITH(device.copy(pinned, memory, 4, CopyKind::host_to_device, stream),
                    ContainsSubstring("source of h2d is device memory"));
  CHECK_THROWS_WITH(device.copy(pinned, pinned, 4, CopyKind::host_to_device, stream),
                    ContainsSubstring("destination of h2d is not device memory"));
  Operation kernel;
  kernel.name = "k";
  kernel.views = {{&variable, 4, Access::read}};
  CHECK_THROWS_WITH(device.launch(kernel, stream),
                    ContainsSubstring("view of k is pageable host memory"));
  CHECK_THROWS_WITH(device.event_time(event), ContainsSubstring("not created as a timed one"));
  CHECK(device.pending() == 0);

  device.free(memory);
  CHECK(code_of([&] { device.free(memory); }) == ErrorCode::invalid_argument);
}

TEST_CASE("freeing nothing is fine") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  device.free(nullptr);
  device.free_host(nullptr);
  device.free_async(nullptr, device.create_stream());
  SUCCEED("nothing was refused");
}

TEST_CASE("a stream that is being captured takes no work, records, waits or synchronization") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  const StreamHandle captured = device.create_stream({.blocking = true});
  const StreamHandle other = device.create_stream();
  const EventHandle event = device.create_event();
  device.set_capture_status(captured, CaptureStatus::active);
  CHECK(device.capture_status(captured) == CaptureStatus::active);
  CHECK(device.capture_status(device.legacy_stream()) == CaptureStatus::blocked);
  CHECK(device.capture_status(other) == CaptureStatus::none);
  CHECK(code_of([&] { device.record(event, captured); }) == ErrorCode::capture);
  CHECK(code_of([&] { device.wait(captured, event); }) == ErrorCode::capture);
  CHECK(code_of([&] { (void)device.query(captured); }) == ErrorCode::capture);
  CHECK(code_of([&] { device.synchronize(captured); }) == ErrorCode::capture);
  CHECK(code_of([&] { device.launch(fixed_kernel("k", 1ns), captured); }) == ErrorCode::capture);
  CHECK(code_of([&] { device.synchronize(); }) == ErrorCode::capture);
  CHECK(code_of([&] { device.record(event, device.legacy_stream()); }) == ErrorCode::capture);
  CHECK_NOTHROW(device.record(event, other));
  CHECK_THROWS_AS(device.stream_id(captured), DeviceError);
  device.set_capture_status(captured, CaptureStatus::none);
  CHECK_NOTHROW(device.record(event, captured));
}

TEST_CASE("a broken capture refuses calls until it is ended, and says so") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  const StreamHandle stream = device.create_stream({.name = "copy"});
  device.set_capture_status(stream, CaptureStatus::invalidated);
  CHECK(device.capture_status(stream) == CaptureStatus::invalidated);
  CHECK_THROWS_WITH(device.synchronize(stream), ContainsSubstring("stream copy: an earlier call"));
  device.set_capture_status(stream, CaptureStatus::none);
  CHECK_NOTHROW(device.synchronize(stream));
}

TEST_CASE("a captured stream blocks the legacy stream only if it synchronizes with it") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  const EventHandle event = device.create_event();
  for (const bool blocking : {false, true}) {
    const StreamHandle stream = device.create_stream({.blocking = blocking});
    device.set_capture_status(stream, CaptureStatus::active);
    const auto status = device.capture_status(device.legacy_stream());
    CHECK(status == (blocking ? CaptureStatus::blocked : CaptureStatus::none));
    CHECK(code_of([&] { device.record(event, device.legacy_stream()); }) ==
          (blocking ? ErrorCode::capture : ErrorCode::unknown));
    device.set_capture_status(stream, CaptureStatus::none);
  }
  CHECK_THROWS_AS(device.set_capture_status(device.legacy_stream(), CaptureStatus::active),
                  DeviceError);
}

TEST_CASE("a host callback that calls a device is refused") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  const StreamHandle stream = device.create_stream();
  ErrorCode code = ErrorCode::unknown;
  device.callback(stream, [&] { code = code_of([&] { (void)device.create_event(); }); });
  device.synchronize(stream);
  CHECK(code == ErrorCode::not_supported);
}

TEST_CASE("calls are counted by kind, failed ones too, and observers may veto them") {
  struct Veto : DeviceObserver {
    void before(Call call) override {
      if (call == Call::record) throw DeviceError(ErrorCode::unknown, "record", "no");
    }
    void recorded(EventHandle, StreamHandle) override { ++records; }
    void enqueued(StreamHandle, const Operation& operation) override { last = operation.name; }
    int records = 0;
    std::string last;
  } veto;
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  const StreamHandle stream = device.create_stream();
  const EventHandle event = device.create_event();
  device.add_observer(veto);
  CHECK_THROWS_AS(device.record(event, stream), DeviceError);
  device.launch(fixed_kernel("k", 1ns), stream);
  device.remove_observer(veto);
  device.record(event, stream);
  CHECK(veto.records == 0);
  CHECK(veto.last == "k");
  CHECK(device.calls(Call::record) == 2);
  CHECK(device.calls(Call::launch) == 1);
  CHECK(device.calls() == 5);
}
