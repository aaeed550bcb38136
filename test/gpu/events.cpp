#include <chrono>
#include <thread>

#include "test/gpu/support.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

TEST_CASE("an event that was never recorded is complete, and waiting for it orders nothing",
          "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  const TestEvent event{*gpu};
  CHECK(gpu->query(event));
  gpu->wait(stream, event);
  gpu->synchronize(stream);
  CHECK(gpu->query(stream));
}

TEST_CASE("an event completes with the work before it", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  const TestEvent event{*gpu};
  HostGate gate{*gpu, stream};
  gpu->record(event, stream);
  CHECK_FALSE(gpu->query(event));
  gate.open();
  gpu->synchronize(event);
  CHECK(gpu->query(event));
}

TEST_CASE("work after a wait runs after the event's work", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream first{*gpu}, second{*gpu};
  const TestEvent event{*gpu};
  const TestMemory memory{*gpu, 1, Where::host};
  memory.host()[0] = std::byte{0};
  HostGate gate{*gpu, first};
  gpu->fill(memory.at(), 1, 1, first);
  gpu->record(event, first);
  gpu->wait(second, event);
  gpu->fill(memory.at(), 2, 1, second);
  CHECK_FALSE(gpu->query(second));
  gate.open();
  gpu->synchronize(second);
  CHECK(memory.host()[0] == std::byte{2});
}

TEST_CASE("a waiter keeps what it waits for when the event is recorded again", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream first{*gpu}, waiter{*gpu}, again{*gpu};
  const TestEvent event{*gpu};
  HostGate first_gate{*gpu, first};
  gpu->record(event, first);
  gpu->wait(waiter, event);
  // A kernel holds the stream, because the host functions of all streams may run one by one.
  gpu->launch(hold(500ms), again);
  gpu->record(event, again);
  first_gate.open();
  gpu->synchronize(waiter);
  CHECK_FALSE(gpu->query(event));
  gpu->synchronize(event);
}

TEST_CASE("an event may be destroyed while a stream waits for it", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream first{*gpu}, second{*gpu};
  HostGate gate{*gpu, first};
  const EventHandle event = gpu->create_event();
  gpu->record(event, first);
  gpu->wait(second, event);
  gpu->destroy_event(event);
  CHECK_FALSE(gpu->query(second));
  gate.open();
  gpu->synchronize(second);
  CHECK(gpu->query(first));
}

TEST_CASE("the time between two events is at least that of the work between them", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  const TestEvent begin{*gpu, true}, end{*gpu, true};
  gpu->record(begin, stream);
  gpu->launch(hold(5ms), stream);
  gpu->record(end, stream);
  gpu->synchronize(end);
  CHECK(gpu->event_time(end) - gpu->event_time(begin) >= 5ms);
}

TEST_CASE("times of events agree over the seconds", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  const TestEvent early{*gpu, true}, late{*gpu, true}, latest{*gpu, true};
  gpu->record(early, stream);
  gpu->synchronize(early);
  const Nanoseconds told_at_once = gpu->event_time(early);
  const auto before = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(1200ms);  // the event clock takes another base
  gpu->record(late, stream);
  gpu->record(latest, stream);
  gpu->synchronize(latest);
  const Nanoseconds slept = std::chrono::steady_clock::now() - before;
  const Nanoseconds between = gpu->event_time(late) - gpu->event_time(early);
  CHECK(between >= 1200ms);
  CHECK(between <= slept + 1ms);  // the two clocks may differ by parts in a thousand
  CHECK(gpu->event_time(late) <= gpu->event_time(latest));
  CHECK(std::chrono::abs(gpu->event_time(early) - told_at_once) < 10us);
}
