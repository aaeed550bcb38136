#include "capture/delivery_queue.hpp"

#include <vector>

#include "millrace/device/virtual_machine.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::capture;
using namespace std::chrono_literals;

TEST_CASE("deliveries are handled in order, and the last step without rows stands for others") {
  VirtualMachine machine;
  Executor& executor = machine.executor();
  std::vector<std::uint64_t> handled;
  DeliveryQueue queue{executor, [&](const Delivery& next) { handled.push_back(next.step); }};
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

TEST_CASE("a wait for a busy queue ends after its patience") {
  VirtualMachine machine;
  Executor& executor = machine.executor();
  DeliveryQueue queue{executor, [&](const Delivery&) { executor.spend(10ms); }};
  queue.start();
  queue.push({.step = 1, .slot = 0});
  CHECK_FALSE(queue.wait_idle(1ms));
  CHECK(queue.wait_idle(1s));
  queue.stop();
}
