#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <set>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/plain_device.hpp"
#include "test/support/schedules.hpp"

using namespace std::chrono_literals;
using namespace millrace;
using test::adversarial;
using test::fixed_kernel;
using test::plain_options;
using test::Timeline;

namespace {

constexpr std::uint64_t kSeeds = 200;
constexpr int kOtherWork = 30;

/// A table with one row, which a gather reads on one stream and an update writes on another.
class Table {
 public:
  explicit Table(VirtualDevice& device)
      : device_(device),
        row_(device.allocate(sizeof(int))),
        gathered_(static_cast<int*>(device.allocate_host(sizeof(int)))) {}

  void gather(StreamHandle stream) {
    device_.copy(gathered_, row_, sizeof(int), CopyKind::device_to_host, stream);
  }
  void update(StreamHandle stream) { device_.fill(row_, 1, sizeof(int), stream); }
  void other_work(StreamHandle stream) {
    for (int i = 0; i < kOtherWork; ++i) device_.launch(fixed_kernel("other", 1ns), stream);
  }
  [[nodiscard]] bool gathered_updated() const { return *gathered_ != 0; }

 private:
  VirtualDevice& device_;
  void* row_;
  int* gathered_;
};

/// The gather must run first. Main has much other work before the update.
/// @return whether the gather read the updated row
bool late_gather_goes_wrong(std::uint64_t seed, bool edge) {
  VirtualMachine machine{adversarial(seed)};
  VirtualDevice& device = machine.add_device(plain_options());
  Table table{device};
  const StreamHandle main = device.create_stream();
  const StreamHandle side = device.create_stream();
  const EventHandle gathered = device.create_event();
  table.gather(side);
  device.record(gathered, side);
  table.other_work(main);
  if (edge) device.wait(main, gathered);
  table.update(main);
  device.synchronize();
  return table.gathered_updated();
}

/// The update must run first. The side stream has much other work before the gather.
/// @return whether the gather missed the update
bool early_gather_goes_wrong(std::uint64_t seed, bool edge) {
  VirtualMachine machine{adversarial(seed)};
  VirtualDevice& device = machine.add_device(plain_options());
  Table table{device};
  const StreamHandle main = device.create_stream();
  const StreamHandle side = device.create_stream();
  const EventHandle updated = device.create_event();
  table.update(main);
  device.record(updated, main);
  table.other_work(main);
  table.other_work(side);
  if (edge) device.wait(side, updated);
  table.gather(side);
  device.synchronize();
  return !table.gathered_updated();
}

std::uint64_t found(bool (*goes_wrong)(std::uint64_t, bool), bool edge) {
  std::uint64_t count = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) count += goes_wrong(seed, edge) ? 1 : 0;
  return count;
}

/// Models the same two queues with the next stream drawn uniformly each time. Returns the number of
/// seeds with which the side stream's item comes after all items of main.
std::uint64_t found_by_uniform_order() {
  std::uint64_t count = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937_64 random{seed};
    int main_left = kOtherWork + 1;
    while (main_left > 0 && (random() & 1) != 0) --main_left;
    count += main_left == 0 ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("a quarter of the seeds finds a missing edge between an update and a gather") {
  CHECK(found(late_gather_goes_wrong, false) >= kSeeds / 4);
  CHECK(found(early_gather_goes_wrong, false) >= kSeeds / 4);
  CHECK(found_by_uniform_order() <= 1);
}

TEST_CASE("with the edge between update and gather no seed goes wrong") {
  CHECK(found(late_gather_goes_wrong, true) == 0);
  CHECK(found(early_gather_goes_wrong, true) == 0);
}

TEST_CASE("no work runs before a wait for it, and then only the work that the wait needs") {
  const auto seed = GENERATE(range(std::uint64_t{0}, std::uint64_t{20}));
  VirtualMachine machine{adversarial(seed)};
  VirtualDevice& device = machine.add_device(plain_options());
  const Timeline timeline{machine};
  const StreamHandle one = device.create_stream();
  const StreamHandle two = device.create_stream();
  const StreamHandle three = device.create_stream();
  const EventHandle event = device.create_event();
  device.launch(fixed_kernel("a", 1ns), one);
  device.record(event, one);
  device.launch(fixed_kernel("b", 1ns), one);
  device.launch(fixed_kernel("c", 1ns), two);
  device.wait(two, event);
  device.launch(fixed_kernel("d", 1ns), two);
  device.launch(fixed_kernel("e", 1ns), three);
  machine.executor().spend(1s);
  CHECK(timeline.order().empty());
  device.synchronize(two);
  auto ran = timeline.order();
  std::sort(ran.begin(), ran.end());
  CHECK(ran == std::vector<std::string>{"a", "c", "d"});
  device.synchronize();
  CHECK(timeline.order().size() == 5);
}

TEST_CASE("over the seeds each of five streams comes first, and each comes last") {
  std::set<std::string> first;
  std::set<std::string> last;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    VirtualMachine machine{adversarial(seed)};
    VirtualDevice& device = machine.add_device(plain_options());
    const Timeline timeline{machine};
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      device.launch(fixed_kernel(name, 1ns), device.create_stream());
    }
    device.synchronize();
    first.insert(timeline.order().front());
    last.insert(timeline.order().back());
  }
  CHECK(first.size() == 5);
  CHECK(last.size() == 5);
}

TEST_CASE("the answer to a query of unfinished work depends on the seed, and is yes eventually") {
  std::set<bool> answers;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    VirtualMachine machine{adversarial(seed)};
    VirtualDevice& device = machine.add_device(plain_options());
    const StreamHandle stream = device.create_stream();
    const EventHandle event = device.create_event();
    device.launch(fixed_kernel("a", 1ns), stream);
    device.record(event, stream);
    answers.insert(device.query(event));
    int asked = 0;
    while (!device.query(event)) ++asked;
    CHECK(asked < 1000);
    CHECK(device.query(event));
  }
  CHECK(answers.size() == 2);
}

TEST_CASE("a full launch queue runs some work, and callbacks and gates keep their order") {
  const auto seed = GENERATE(range(std::uint64_t{0}, std::uint64_t{20}));
  VirtualMachine machine{adversarial(seed)};
  auto options = plain_options();
  options.launch_queue_depth = 4;
  VirtualDevice& device = machine.add_device(options);
  const Timeline timeline{machine};
  const StreamHandle one = device.create_stream();
  const StreamHandle two = device.create_stream();
  std::vector<int> order;
  Gate gate = device.enqueue_gate(two);
  device.callback(two, [&] { order.push_back(2); });
  for (int i = 0; i < 10; ++i) device.launch(fixed_kernel("k", 1ns), one);
  CHECK(device.pending() <= 4);
  CHECK(order.empty());
  device.callback(one, [&] { order.push_back(1); });
  device.synchronize(one);
  CHECK(order == std::vector<int>{1});
  gate.open();
  device.synchronize();
  CHECK(order == std::vector<int>{1, 2});
}
