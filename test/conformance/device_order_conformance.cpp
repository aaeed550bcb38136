#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "test/conformance/device_conformance.hpp"

using namespace std::chrono_literals;
using namespace millrace;
using test::Cells;
using test::DeviceUnderTest;
using test::over_every_device;

namespace {

constexpr std::size_t kBytes = 100'000;

StreamHandle blocking_stream(Device& device) {
  StreamOptions options;
  options.blocking = true;
  return device.create_stream(options);
}

}  // namespace

TEST_CASE("work of a stream runs in order") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    const StreamHandle stream = device.create_stream();
    Cells cells{device, kBytes};
    for (int value = 0; value < 20; ++value) cells.fill(static_cast<unsigned char>(value), stream);
    cells.fetch(stream);
    cells.fill(99, stream);
    device.synchronize(stream);
    CHECK(cells.mirrored() == 19);
  });
}

TEST_CASE("a stream that waits for an event sees what was done before it was recorded") {
  over_every_device([](DeviceUnderTest& under_test, Device& device) {
    const StreamHandle one = device.create_stream();
    const StreamHandle two = device.create_stream();
    const EventHandle event = device.create_event();
    Cells cells{device, kBytes};
    const auto open = under_test.hold(one);
    cells.fill(7, one);
    device.record(event, one);
    device.wait(two, event);
    cells.fetch(two);
    CHECK_FALSE(device.query(two));
    CHECK_FALSE(device.query(event));
    open();
    device.synchronize(two);
    CHECK(cells.mirrored() == 7);
    CHECK(device.query(event));
  });
}

TEST_CASE("order is transitive through a third stream") {
  over_every_device([](DeviceUnderTest& under_test, Device& device) {
    const StreamHandle streams[] = {device.create_stream(), device.create_stream(),
                                    device.create_stream()};
    const EventHandle events[] = {device.create_event(), device.create_event()};
    Cells cells{device, kBytes};
    const auto open = under_test.hold(streams[0]);
    cells.fill(5, streams[0]);
    device.record(events[0], streams[0]);
    device.wait(streams[1], events[0]);
    device.record(events[1], streams[1]);
    device.wait(streams[2], events[1]);
    cells.fetch(streams[2]);
    open();
    device.synchronize(streams[2]);
    CHECK(cells.mirrored() == 5);
  });
}

TEST_CASE("an event that was never recorded is complete, and a wait for it does not block") {
  over_every_device([](DeviceUnderTest& under_test, Device& device) {
    const StreamHandle held = device.create_stream();
    const StreamHandle stream = device.create_stream();
    const EventHandle event = device.create_event();
    const auto open = under_test.hold(held);
    CHECK(device.query(event));
    device.synchronize(event);
    device.wait(stream, event);
    device.record(event, held);
    device.synchronize(stream);
    CHECK_FALSE(device.query(event));
    open();
    device.synchronize(event);
    CHECK(device.query(event));
  });
}

TEST_CASE("recording an event again does not change what earlier waiters wait for") {
  over_every_device([](DeviceUnderTest& under_test, Device& device) {
    const StreamHandle one = device.create_stream();
    const StreamHandle two = device.create_stream();
    const EventHandle event = device.create_event();
    Cells cells{device, kBytes};
    cells.fill(3, one);
    device.record(event, one);
    device.wait(two, event);
    const auto open = under_test.hold(one);
    device.record(event, one);
    cells.fetch(two);
    device.synchronize(two);  // would not return if it waited for the second recording
    CHECK(cells.mirrored() == 3);
    CHECK_FALSE(device.query(event));
    open();
    device.synchronize(event);
  });
}

TEST_CASE("a wait takes the latest recording at the time of the call") {
  over_every_device([](DeviceUnderTest& under_test, Device& device) {
    const StreamHandle one = device.create_stream();
    const StreamHandle two = device.create_stream();
    const EventHandle event = device.create_event();
    Cells cells{device, kBytes};
    cells.fill(1, one);
    device.record(event, one);
    const auto open = under_test.hold(one);
    cells.fill(2, one);
    device.record(event, one);
    device.wait(two, event);
    cells.fetch(two);
    open();
    device.synchronize(two);
    CHECK(cells.mirrored() == 2);
  });
}

TEST_CASE("a destroyed event keeps its order for streams that already wait for it") {
  over_every_device([](DeviceUnderTest& under_test, Device& device) {
    const StreamHandle one = device.create_stream();
    const StreamHandle two = device.create_stream();
    const EventHandle event = device.create_event();
    Cells cells{device, kBytes};
    const auto open = under_test.hold(one);
    cells.fill(4, one);
    device.record(event, one);
    device.wait(two, event);
    device.destroy_event(event);
    cells.fetch(two);
    open();
    device.synchronize(two);
    CHECK(cells.mirrored() == 4);
  });
}

TEST_CASE("synchronizing one stream does not wait for another") {
  over_every_device([](DeviceUnderTest& under_test, Device& device) {
    const StreamHandle held = device.create_stream();
    const StreamHandle stream = device.create_stream();
    Cells cells{device, kBytes};
    const auto open = under_test.hold(held);
    cells.fill(6, stream);
    cells.fetch(stream);
    device.synchronize(stream);
    CHECK(cells.mirrored() == 6);
    CHECK_FALSE(device.query(held));
    open();
    device.synchronize(held);
    CHECK(device.query(held));
  });
}

TEST_CASE("synchronizing the device waits for every stream") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    std::vector<std::unique_ptr<Cells>> cells;
    for (int i = 0; i < 8; ++i) {
      const StreamHandle stream = i == 0 ? device.legacy_stream() : device.create_stream();
      cells.push_back(std::make_unique<Cells>(device, kBytes));
      cells.back()->fill(static_cast<unsigned char>(i), stream);
      cells.back()->fetch(stream);
    }
    device.synchronize();
    for (std::size_t i = 0; i < cells.size(); ++i)
      CHECK(cells[i]->mirrored() == static_cast<int>(i));
  });
}

TEST_CASE("the legacy stream follows blocking streams, and they follow it") {
  over_every_device([](DeviceUnderTest& under_test, Device& device) {
    const StreamHandle blocking = blocking_stream(device);
    const StreamHandle other = blocking_stream(device);
    const StreamHandle free = device.create_stream();
    Cells cells{device, kBytes};
    Cells seen{device, kBytes};
    const auto open = under_test.hold(blocking);
    cells.fill(8, blocking);
    device.copy(seen.address(), cells.address(), kBytes, CopyKind::device_to_device,
                device.legacy_stream());
    seen.fetch(other);
    CHECK_FALSE(device.query(other));
    CHECK(device.query(free));
    open();
    device.synchronize(other);
    CHECK(seen.mirrored() == 8);
  });
}

TEST_CASE("a non-blocking stream is not ordered with the legacy stream") {
  over_every_device([](DeviceUnderTest& under_test, Device& device) {
    const StreamHandle blocking = blocking_stream(device);
    const StreamHandle free = device.create_stream();
    Cells cells{device, kBytes};
    Cells held{device, kBytes};
    const auto open = under_test.hold(blocking);
    held.fill(1, device.legacy_stream());
    cells.fill(2, free);
    cells.fetch(free);
    device.synchronize(free);
    CHECK(cells.mirrored() == 2);
    CHECK_FALSE(device.query(blocking));
    open();
    device.synchronize();
  });
}

TEST_CASE("each thread has its own per-thread stream, which the legacy stream follows") {
  over_every_device([](DeviceUnderTest& under_test, Device& device) {
    const StreamHandle mine = device.per_thread_stream();
    const std::uint64_t my_id = device.stream_id(mine);
    std::uint64_t other_id = 0;
    const auto other = under_test.executor().spawn(
        "other", [&] { other_id = device.stream_id(device.per_thread_stream()); });
    other->join();
    CHECK(other_id != my_id);
    CHECK(my_id != device.stream_id(device.legacy_stream()));
    CHECK(my_id == device.stream_id(mine));

    Cells cells{device, kBytes};
    cells.fill(9, mine);
    cells.fetch(device.legacy_stream());
    device.synchronize();
    CHECK(cells.mirrored() == 9);
  });
}

TEST_CASE("callbacks run in their stream's order, between the work around them") {
  over_every_device([](DeviceUnderTest& under_test, Device& device) {
    const StreamHandle stream = device.create_stream();
    Cells before{device, kBytes};
    std::vector<int> seen;
    const auto open = under_test.hold(stream);
    before.fill(1, stream);
    before.fetch(stream);
    device.callback(stream, [&] { seen.push_back(before.mirrored()); });
    before.fill(2, stream);
    before.fetch(stream);
    device.callback(stream, [&] { seen.push_back(before.mirrored()); });
    open();
    device.synchronize(stream);
    CHECK(seen == std::vector<int>{1, 2});
  });
}

TEST_CASE("work after a callback sees what the callback wrote") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    const StreamHandle stream = device.create_stream();
    Cells cells{device, 64};
    auto* const pinned = static_cast<unsigned char*>(device.allocate_host(64));
    device.callback(stream, [&] { std::fill(pinned, pinned + 64, static_cast<unsigned char>(5)); });
    device.copy(cells.address(), pinned, 64, CopyKind::host_to_device, stream);
    cells.fetch(stream);
    device.synchronize(stream);
    CHECK(cells.mirrored() == 5);
    device.free_host(pinned);
  });
}

TEST_CASE("timed events give the time between them") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    const StreamHandle stream = device.create_stream();
    const EventHandle first = device.create_event(true);
    const EventHandle second = device.create_event(true);
    Operation kernel;
    kernel.name = "hold";
    kernel.cost.fixed = 200us;
    device.record(first, stream);
    device.launch(kernel, stream);
    device.record(second, stream);
    device.synchronize(second);
    const Nanoseconds apart = device.event_time(second) - device.event_time(first);
    CHECK(apart >= 190us);
  });
}

TEST_CASE("a stream says whether it synchronizes with the legacy stream") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    CHECK(device.blocking(blocking_stream(device)));
    CHECK_FALSE(device.blocking(device.create_stream()));
    CHECK(device.blocking(device.per_thread_stream()));
  });
}

TEST_CASE("the ids of streams are never reused") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    std::set<std::uint64_t> ids{device.stream_id(device.legacy_stream())};
    for (int i = 0; i < 50; ++i) {
      const StreamHandle stream = device.create_stream();
      CHECK(ids.insert(device.stream_id(stream)).second);
      CHECK(device.capture_status(stream) == CaptureStatus::none);
      device.destroy_stream(stream);
    }
  });
}

TEST_CASE("the work of a destroyed stream still runs") {
  over_every_device([](DeviceUnderTest& under_test, Device& device) {
    const StreamHandle stream = device.create_stream();
    Cells cells{device, kBytes};
    const auto open = under_test.hold(stream);
    cells.fill(3, stream);
    cells.fetch(stream);
    device.destroy_stream(stream);
    open();
    device.synchronize();
    CHECK(cells.mirrored() == 3);
  });
}

TEST_CASE("events order a chain of many streams") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    Cells cells{device, kBytes};
    std::vector<StreamHandle> streams;
    for (int i = 0; i < 60; ++i) {
      StreamOptions options;
      options.priority = -(i % 3);
      streams.push_back(device.create_stream(options));
    }
    EventHandle previous{};
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (i > 0) device.wait(streams[i], previous);
      cells.fill(static_cast<unsigned char>(i), streams[i]);
      previous = device.create_event();
      device.record(previous, streams[i]);
    }
    cells.fetch(streams.back());
    device.synchronize(streams.back());
    CHECK(cells.mirrored() == 59);
    for (const StreamHandle stream : streams) device.destroy_stream(stream);
  });
}

TEST_CASE("several threads use the device at once, each on a stream of its own") {
  over_every_device([](DeviceUnderTest& under_test, Device& device) {
    std::vector<int> seen(4, -1);
    std::vector<std::unique_ptr<Executor::Task>> tasks;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      tasks.push_back(under_test.executor().spawn("thread " + std::to_string(i), [&, i] {
        const StreamHandle stream = device.create_stream();
        Cells cells{device, kBytes};
        for (int round = 0; round < 10; ++round) {
          cells.fill(static_cast<unsigned char>(10 * i + static_cast<std::size_t>(round)), stream);
          cells.fetch(stream);
          device.synchronize(stream);
        }
        seen[i] = cells.mirrored();
        device.destroy_stream(stream);
      }));
    }
    for (const auto& task : tasks) task->join();
    CHECK(seen == std::vector<int>{9, 19, 29, 39});
  });
}
