#include <chrono>
#include <deque>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "millrace/device/mutex.hpp"
#include "test/support/catch.hpp"
#include "test/support/plain_device.hpp"
#include "test/support/schedules.hpp"

using namespace std::chrono_literals;
using namespace millrace;
using Catch::Matchers::ContainsSubstring;
using test::adversarial;
using test::fixed_kernel;
using test::plain_options;
using test::Timeline;

TEST_CASE("the actor with the smallest clock runs first") {
  VirtualMachine machine;
  Executor& executor = machine.executor();
  std::string order;
  const auto slow = executor.spawn("slow", [&] {
    executor.spend(100ns);
    order += "s";
  });
  const auto fast = executor.spawn("fast", [&] {
    executor.spend(10ns);
    order += "f";
    executor.spend(200ns);
    order += "F";
  });
  executor.spend(50ns);
  order += "m";
  slow->join();
  fast->join();
  CHECK(order == "fmsF");
  CHECK(machine.now() == 210ns);
}

TEST_CASE("actors at the same time run in the order in which they were made") {
  VirtualMachine machine;
  Executor& executor = machine.executor();
  std::string order;
  const auto one = executor.spawn("one", [&] { order += "1"; });
  const auto two = executor.spawn("two", [&] { order += "2"; });
  order += "m";
  two->join();
  one->join();
  CHECK(order == "m12");
}

TEST_CASE("join throws the exception of the actor") {
  VirtualMachine machine;
  const auto task =
      machine.executor().spawn("broken", [] { throw std::runtime_error("out of batches"); });
  CHECK_THROWS_WITH(task->join(), "out of batches");
}

TEST_CASE("two actors share a queue through a condition, and time passes in both") {
  VirtualMachine machine;
  Executor& executor = machine.executor();
  const auto condition = executor.make_condition();
  std::mutex mutex;
  std::deque<int> queue;
  const auto loader = executor.spawn("loader", [&] {
    for (int i = 0; i < 3; ++i) {
      executor.spend(100ns);
      const std::lock_guard lock{mutex};
      queue.push_back(i);
      condition->notify_all();
    }
  });
  std::vector<Nanoseconds> arrivals;
  for (int i = 0; i < 3; ++i) {
    std::unique_lock lock{mutex};
    while (queue.empty()) condition->wait(lock);
    CHECK(queue.front() == i);
    queue.pop_front();
    arrivals.push_back(machine.now());
  }
  loader->join();
  CHECK(arrivals == std::vector<Nanoseconds>{100ns, 200ns, 300ns});
}

TEST_CASE("an actor that waits for the device lets other actors run") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  Executor& executor = machine.executor();
  const Timeline timeline{machine};
  const StreamHandle one = device.create_stream();
  const StreamHandle two = device.create_stream();
  const auto other = executor.spawn("other", [&] {
    executor.spend(30ns);
    device.launch(fixed_kernel("b", 20ns), two);
    device.synchronize(two);
    CHECK(machine.now() == 50ns);
  });
  device.launch(fixed_kernel("a", 100ns), one);
  device.synchronize(one);
  CHECK(machine.now() == 100ns);
  CHECK(timeline.at("b").begin == 30ns);
  other->join();
}

TEST_CASE("when every actor waits, the error says what each actor waits for") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  Executor& executor = machine.executor();
  const auto condition = executor.make_condition();
  std::mutex mutex;
  const auto loader = executor.spawn("loader", [&] {
    std::unique_lock lock{mutex};
    condition->wait(lock);
  });
  StreamOptions options;
  options.name = "copy";
  const StreamHandle stream = device.create_stream(options);
  (void)device.enqueue_gate(stream);
  CHECK_THROWS_WITH(device.synchronize(stream),
                    "every actor waits and no device work can end: main waits for stream copy (a "
                    "gate on stream copy is not open); loader waits for a condition");
}

TEST_CASE("two actors that join each other get an error and do not hang") {
  VirtualMachine machine;
  Executor& executor = machine.executor();
  std::unique_ptr<Executor::Task> two;
  const auto one = executor.spawn("one", [&] {
    executor.spend(10ns);
    two->join();
  });
  two = executor.spawn("two", [&] {
    executor.spend(20ns);
    one->join();
  });
  CHECK_THROWS_AS(one->join(), Deadlock);
}

TEST_CASE("a machine ends while actors still wait, and unwinds their stacks") {
  bool unwound = false;
  {
    VirtualMachine machine;
    Executor& executor = machine.executor();
    const auto condition = executor.make_condition();
    std::mutex mutex;
    const auto waiter = executor.spawn("waiter", [&] {
      struct Mark {
        bool& set;
        ~Mark() { set = true; }
      } mark{unwound};
      std::unique_lock lock{mutex};
      condition->wait(lock);
    });
    executor.spend(10ns);
  }
  CHECK(unwound);
}

TEST_CASE("queued work runs when the machine ends") {
  bool ran = false;
  {
    VirtualMachine machine;
    VirtualDevice& device = machine.add_device(plain_options());
    const StreamHandle stream = device.create_stream();
    (void)device.enqueue_gate(stream);
    Operation operation;
    operation.host = [&](const KernelContext&) { ran = true; };
    device.launch(operation, stream);
    CHECK_FALSE(ran);
  }
  CHECK(ran);
}

TEST_CASE("queued work is dropped when the machine ends by an exception") {
  bool ran = false;
  try {
    VirtualMachine machine;
    VirtualDevice& device = machine.add_device(plain_options());
    Operation operation;
    operation.cost.fixed = 10ns;
    operation.host = [&](const KernelContext&) { ran = true; };
    device.launch(operation, device.create_stream());
    throw std::runtime_error("a test fails");
  } catch (const std::runtime_error&) {
  }
  CHECK_FALSE(ran);
}

TEST_CASE("a thread that is not an actor is refused") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  std::string error;
  std::thread{[&] {
    try {
      (void)device.create_stream();
    } catch (const DeviceError& caught) {
      error = caught.what();
    }
  }}.join();
  CHECK_THAT(error, ContainsSubstring("not an actor of this virtual machine"));
}

TEST_CASE("a lock that is held across device calls lets other actors run") {
  const auto seed = GENERATE(0, 1, 2, 3, 4, 5, 6, 7);
  VirtualMachine machine{seed == 0 ? VirtualMachine::Options{} : adversarial(seed)};
  auto options = plain_options();
  options.profile.host_time.fill(5ns);
  VirtualDevice& device = machine.add_device(options);
  Executor& executor = machine.executor();
  Mutex mutex;
  int inside = 0;
  int most_inside = 0;
  const auto work = [&] {
    const StreamHandle stream = device.create_stream();
    for (int i = 0; i < 20; ++i) {
      const std::lock_guard lock{mutex};
      most_inside = std::max(most_inside, ++inside);
      device.launch(fixed_kernel("k", 3ns), stream);
      device.synchronize(stream);
      --inside;
    }
  };
  const auto one = executor.spawn("one", work);
  const auto two = executor.spawn("two", work);
  work();
  one->join();
  two->join();
  CHECK(most_inside == 1);
}

TEST_CASE("one handle stands for a different per-thread stream of each actor") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  std::uint64_t other_id = 0;
  StreamHandle other_handle;
  const auto other = machine.executor().spawn("other", [&] {
    other_handle = device.per_thread_stream();
    other_id = device.stream_id(other_handle);
  });
  other->join();
  CHECK(other_handle == device.per_thread_stream());
  CHECK(other_id != device.stream_id(device.per_thread_stream()));
}

TEST_CASE("the adversarial schedule orders actors by its seed, repeatably") {
  const auto run = [](std::uint64_t seed) {
    VirtualMachine machine{adversarial(seed)};
    Executor& executor = machine.executor();
    std::string order;
    const auto actor = [&](char name) {
      return executor.spawn({name}, [&, name] {
        for (int i = 0; i < 4; ++i) {
          order += name;
          executor.yield();
        }
      });
    };
    const auto a = actor('a');
    const auto b = actor('b');
    a->join();
    b->join();
    return order;
  };
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CHECK(run(seed) == run(seed));
    orders.insert(run(seed));
  }
  CHECK(orders.size() >= 5);
}

TEST_CASE("an actor that yields in a loop does not keep other actors from running") {
  const auto seed = GENERATE(range(0, 12));
  VirtualMachine machine{seed == 0 ? VirtualMachine::Options{} : adversarial(seed)};
  Executor& executor = machine.executor();
  bool set = false;
  const auto other = executor.spawn("other", [&] {
    executor.spend(10us);
    set = true;
  });
  while (!set) executor.yield();
  other->join();
  SUCCEED("came here");
}
