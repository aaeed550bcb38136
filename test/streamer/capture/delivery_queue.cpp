#include "capture/delivery_queue.hpp"

#include <vector>

#include "millrace/device/virtual_machine.hpp"
#include "test/support/catch.hpp"
#include "test/support/host_memory/failing_host_memory.hpp"

using namespace millrace;
using namespace millrace::capture;
using namespace std::chrono_literals;

TEST_CASE("deliveries are handled in order, and the last empty step stands for those before") {
  VirtualMachine machine;
  Executor& executor = machine.executor();
  std::vector<std::uint64_t> handled;
  DeliveryQueue queue{executor, 2, [&](const Delivery& next) { handled.push_back(next.step); }};
  queue.push({.step = 1});
  queue.push({.step = 2});
  queue.push({.step = 3, .slot = 0});
  queue.push({.step = 3, .slot = 1});
  queue.push({.step = 4});
  queue.push({.step = 5});
  queue.start();
  CHECK(queue.wait_idle(Nanoseconds::max()));
  CHECK(handled == std::vector<std::uint64_t>{2, 3, 3, 5});
  queue.push({.step = 6});
  queue.stop();
  CHECK(handled.back() == 6);
}

TEST_CASE("deliveries of all slots are queued without an allocation of host memory") {
  VirtualMachine machine;
  constexpr std::size_t kSlots = 32;
  std::size_t handled = 0;
  DeliveryQueue queue{machine.executor(), kSlots, [&](const Delivery&) { ++handled; }};
  {
    const test::FailingHostMemory failing{1};
    queue.push({.step = 0});
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      queue.push({.step = slot, .slot = slot});
      queue.push({.step = slot});
    }
  }
  CHECK_FALSE(test::FailingHostMemory::failed());
  queue.start();
  queue.stop();
  CHECK(handled == 2 * kSlots + 1);
}

TEST_CASE("a wait for a busy queue ends after its time limit") {
  VirtualMachine machine;
  Executor& executor = machine.executor();
  DeliveryQueue queue{executor, 1, [&](const Delivery&) { executor.spend(10ms); }};
  queue.start();
  queue.push({.step = 1, .slot = 0});
  CHECK_FALSE(queue.wait_idle(1ms));
  CHECK(queue.wait_idle(1s));
  queue.stop();
}
