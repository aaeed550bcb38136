#include <chrono>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "device/virtual/random.hpp"
#include "test/support/catch.hpp"
#include "test/support/plain_device.hpp"
#include "test/support/seed.hpp"

using namespace std::chrono_literals;
using namespace millrace;
using simulation::Random;

namespace {

/// Makes random calls and logs everything that it observes.
class RandomActor {
 public:
  RandomActor(VirtualMachine& machine, VirtualDevice& device, std::uint64_t seed)
      : machine_(machine), device_(device), random_(seed) {
    for (int i = 0; i < 3; ++i) {
      StreamOptions options;
      options.blocking = random_.chance(1, 2);
      options.priority = -static_cast<int>(random_.below(3));
      streams_.push_back(device_.create_stream(options));
      events_.push_back(device_.create_event());
    }
    streams_.push_back(device_.legacy_stream());
    streams_.push_back(device_.per_thread_stream());
    pinned_ = device_.allocate_host(4096);
  }

  void run(int calls) {
    for (int i = 0; i < calls; ++i) step();
    device_.synchronize();
  }

  [[nodiscard]] std::string log() const { return log_.str(); }

 private:
  StreamHandle any_stream() { return streams_[random_.below(streams_.size())]; }
  EventHandle any_event() { return events_[random_.below(events_.size())]; }
  Nanoseconds any_time() { return Nanoseconds{random_.below(5000)}; }

  void step() {
    switch (random_.below(12)) {
      case 0:
        return device_.record(any_event(), any_stream());
      case 1:
        return device_.wait(any_stream(), any_event());
      case 2:
        log_ << device_.query(any_event());
        return;
      case 3:
        log_ << device_.query(any_stream());
        return;
      case 4:
        return device_.synchronize(any_event());
      case 5:
        memory_.push_back(device_.allocate(1 + random_.below(5'000'000)));
        log_ << " @" << device_.offset_of(memory_.back());
        return;
      case 6:
        if (memory_.empty()) return;
        device_.free(memory_.back());
        return memory_.pop_back();
      case 7: {
        const StreamHandle stream = any_stream();
        void* const memory = device_.allocate_async(1 + random_.below(5'000'000), stream);
        log_ << " a" << device_.offset_of(memory);
        device_.fill(memory, 1, 1, stream);
        return device_.free_async(memory, stream);
      }
      case 8:
        if (memory_.empty()) return;
        return device_.copy(memory_.back(), pinned_, 1 + random_.below(4096),
                            CopyKind::host_to_device, any_stream());
      case 9:
        return device_.callback(any_stream(), [this] { log_ << " c" << machine_.now().count(); });
      case 10:
        return machine_.executor().spend(any_time());
      default: {
        Operation kernel;
        kernel.name = "k";
        kernel.cost = {static_cast<double>(random_.below(1'000'000'000)),
                       static_cast<double>(random_.below(10'000'000)), any_time()};
        return device_.launch(kernel, any_stream());
      }
    }
  }

  VirtualMachine& machine_;
  VirtualDevice& device_;
  Random random_;
  std::vector<StreamHandle> streams_;
  std::vector<EventHandle> events_;
  std::vector<void*> memory_;
  void* pinned_ = nullptr;
  std::ostringstream log_;
};

std::string trace(VirtualMachine::Schedule schedule, std::uint64_t seed) {
  VirtualMachine::Options options;
  options.schedule = schedule;
  options.seed = seed;
  VirtualMachine machine{options};
  const test::Timeline timeline{machine};
  VirtualDevice::Options device_options;
  device_options.launch_queue_depth = 20;
  VirtualDevice& one = machine.add_device(device_options);
  VirtualDevice& two = machine.add_device(device_options);
  std::vector<std::unique_ptr<RandomActor>> actors;
  std::vector<std::unique_ptr<Executor::Task>> tasks;
  for (std::uint64_t i = 0; i < 3; ++i) {
    actors.push_back(std::make_unique<RandomActor>(machine, i == 0 ? two : one,
                                                   test::seed() * 1000 + seed * 10 + i));
  }
  for (const auto& actor : actors) {
    tasks.push_back(machine.executor().spawn("actor", [&actor] { actor->run(60); }));
  }
  for (const auto& task : tasks) task->join();

  std::ostringstream all;
  for (const auto& actor : actors) all << actor->log() << '\n';
  for (const auto& entry : timeline.entries()) {
    all << entry.name << ' ' << entry.stream << ' ' << entry.device << ' ' << entry.index << ' '
        << entry.begin.count() << ' ' << entry.end.count() << '\n';
  }
  all << machine.now().count() << ' ' << one.busy(Engine::compute).count();
  return all.str();
}

}  // namespace

TEST_CASE("the same program and seed give the same addresses, order, answers and times") {
  const auto schedule =
      GENERATE(VirtualMachine::Schedule::timed, VirtualMachine::Schedule::adversarial);
  for (std::uint64_t seed = 0; seed < 15; ++seed) {
    const std::string first = trace(schedule, seed);
    CHECK(first.size() > 1000);
    CHECK(first == trace(schedule, seed));
  }
}

TEST_CASE("work of a stream never overlaps, whatever the program and schedule") {
  const auto schedule =
      GENERATE(VirtualMachine::Schedule::timed, VirtualMachine::Schedule::adversarial);
  VirtualMachine::Options options;
  options.schedule = schedule;
  options.seed = test::seed();
  VirtualMachine machine{options};
  const test::Timeline timeline{machine};
  VirtualDevice& device = machine.add_device();
  RandomActor actor{machine, device, test::seed()};
  actor.run(2000);
  std::map<std::string, Nanoseconds> ends;
  for (const auto& entry : timeline.entries()) {
    CHECK(entry.begin >= ends[entry.stream]);
    CHECK(entry.end >= entry.begin);
    ends[entry.stream] = entry.end;
  }
}
