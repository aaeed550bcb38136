#include "millrace/observe/timeline.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/memory/buffer.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/segment_source.hpp"
#include "test/observe/timeline_document.hpp"
#include "test/support/catch.hpp"
#include "test/support/plain_device.hpp"
#include "test/support/seed.hpp"
#include "test/support/sizes.hpp"

namespace millrace {
namespace {

using test::MiB;
using test::Slice;
using test::TimelineDocument;
using namespace std::chrono_literals;

Operation kernel(std::string name, const Cost& cost, std::vector<View> views = {}) {
  return {std::move(name), std::move(views), cost, {}, {}};
}

Operation kernel(std::string name, Nanoseconds time) {
  return kernel(std::move(name), Cost{0, 0, time});
}

/** Two streams that pass buffers to each other, on a recorded machine. */
struct Bench {
  explicit Bench(const VirtualMachine::Options& machine_options = {},
                 const Timeline::Options& options = {}, bool record = true)
      : machine(machine_options),
        device(machine.add_device({.memory_bytes = std::size_t{1} << 30, .data = false})),
        timeline(options) {
    if (!record) return;
    timeline.attach(machine);
    timeline.attach(device);
    timeline.watch(allocator, "memory", main);
  }

  /** Copies one batch per step on one stream and computes with it on the other stream. */
  void run(std::size_t steps) {
    void* const host = device.allocate_host(8 * MiB);
    for (std::size_t step = 0; step < steps; ++step) {
      const std::size_t bytes = (step % 3 + 1) * MiB;
      Buffer batch{allocator, bytes, copy};
      device.copy(batch.data(), host, bytes, CopyKind::host_to_device, copy.handle());
      main.wait_stream(copy);
      allocator.record_use(batch.data(), main);
      Buffer output{allocator, 2 * bytes, main};
      device.launch(
          kernel("compute", {1e9, 3e6, 0ns},
                 {{batch.data(), bytes, Access::read}, {output.data(), 2 * bytes, Access::write}}),
          main.handle());
      device.launch(kernel("beside it", 20us), third.handle());
      device.copy(host, output.data(), MiB, CopyKind::device_to_host, main.handle());
      if (step % 4 == 3) copy.wait_stream(main);
    }
    device.synchronize();
  }

  TimelineDocument document() {
    timeline.stop();
    return TimelineDocument{text()};
  }

  std::string text() const {
    std::ostringstream out;
    timeline.write(out);
    return out.str();
  }

  VirtualMachine machine;
  VirtualDevice& device;
  OrderedDevice ordered{device};
  DeviceSource source{device};
  Stream main{ordered, {.name = "main"}};
  Stream copy{ordered, {.name = "copy"}};
  Stream third{ordered, {.name = "third"}};
  CachingAllocator allocator{ordered, source, Policy::millrace()};
  Timeline timeline;
};

VirtualMachine::Options any_schedule() {
  return {
      .schedule = GENERATE(VirtualMachine::Schedule::timed, VirtualMachine::Schedule::adversarial),
      .seed = test::seed()};
}

}  // namespace

TEST_CASE("a timeline has each operation once, with its times, on its stream's track") {
  Bench bench{any_schedule()};
  const test::Timeline seen{bench.machine};
  bench.run(10);
  const TimelineDocument document = bench.document();
  std::map<std::uint64_t, Slice> slices;
  for (const Slice& slice : document.slices({"operation", "order"})) {
    CHECK(slices.emplace(slice.args.at("index"), slice).second);
  }
  REQUIRE(slices.size() == seen.entries().size());
  for (const auto& entry : seen.entries()) {
    const Slice& slice = slices.at(entry.index);
    CHECK(slice.name == entry.name);
    CHECK(slice.track == entry.stream);
    CHECK(slice.begin == entry.begin);
    CHECK(slice.end == entry.end);
  }
}

TEST_CASE("operations and standstills of one stream do not overlap") {
  Bench bench{any_schedule()};
  bench.run(12);
  const TimelineDocument document = bench.document();
  for (const char* const stream : {"main", "copy", "third"}) {
    const auto slices = document.on_track(stream, {"operation", "order", "standstill"});
    REQUIRE(slices.size() > 10);
    CHECK(test::overlaps(slices) == 0);
  }
}

TEST_CASE("an engine's track has the operations that ran on it, one at a time") {
  Bench bench{any_schedule()};
  bench.run(12);
  const TimelineDocument document = bench.document();
  CHECK(document.on_track("host to device", {"engine"}).size() == 12);
  CHECK(document.on_track("device to host", {"engine"}).size() == 12);
  std::size_t kernels = 0;
  for (const std::string& track : document.tracks()) {
    const auto slices = document.on_track(track, {"engine"});
    CHECK(test::overlaps(slices) == 0);
    if (track.starts_with("compute")) kernels += slices.size();
  }
  CHECK(kernels == 24);
  CHECK(document.slices({"engine"}).size() == document.slices({"operation"}).size());
}

TEST_CASE("kernels that run at once are on separate tracks") {
  Bench bench;
  for (Stream* const stream : {&bench.main, &bench.copy, &bench.third}) {
    bench.device.launch(kernel("long", 1ms), stream->handle());
  }
  bench.device.synchronize();
  const TimelineDocument document = bench.document();
  for (const char* const track : {"compute", "compute 2", "compute 3"}) {
    CHECK(document.on_track(track, {"engine"}).size() == 1);
  }
}

TEST_CASE("an arrow leads from a record that has run to the wait that waited for it") {
  Bench bench{any_schedule()};
  bench.run(12);
  const TimelineDocument document = bench.document();
  const auto arrows = document.arrows();
  std::size_t waits = 0;
  for (const Slice& slice : document.slices({"order"})) waits += slice.name == "wait" ? 1 : 0;
  CHECK(waits >= 15);
  CHECK(arrows.size() == waits);
  for (const auto& [from, to] : arrows) {
    CHECK(from.name == "record");
    CHECK(to.name == "wait");
    CHECK(from.track != to.track);
    CHECK(from.end <= to.begin);
    CHECK(from.args.at("index") < to.args.at("index"));
  }
}

TEST_CASE("a waiting stream is shown as standing still, with the stream that it waits for") {
  Bench bench;
  bench.device.launch(kernel("long", 1ms), bench.copy.handle());
  bench.main.wait_stream(bench.copy);
  bench.device.launch(kernel("after it", 1us), bench.main.handle());
  bench.device.synchronize();
  const TimelineDocument document = bench.document();
  const auto slices = document.on_track("main", {"operation", "order", "standstill"});
  REQUIRE(slices.size() == 3);
  CHECK(slices[0].name == "waits for copy");
  CHECK(slices[0].end - slices[0].begin > 900us);
  CHECK(slices[0].end == slices[1].begin);
  CHECK(slices[1].name == "wait");
  CHECK(slices[2].name == "after it");
}

TEST_CASE("the slice of an operation has its bytes and its cost") {
  Bench bench;
  bench.run(1);
  const TimelineDocument document = bench.document();
  for (const Slice& slice : document.on_track("main", {"operation"})) {
    if (slice.name != "compute") continue;
    CHECK(slice.args.at("bytes") == 3 * MiB);
    CHECK(slice.args.at("cost_flops") == 1e9);
    CHECK(slice.args.at("cost_bytes") == 3e6);
    CHECK(slice.args.at("alone_us").get<double>() > 0);
    CHECK(slice.args.at("enqueued_us").get<double>() > 0);
    return;
  }
  FAIL("no compute");
}

TEST_CASE("a host thread's calls are on its actor's track") {
  Bench bench;
  bench.run(3);
  const auto loader = bench.machine.executor().spawn("loader", [&] {
    const Nanoseconds begin = bench.machine.now();
    bench.device.synchronize(bench.third.handle());
    CHECK(bench.machine.now() > begin);
  });
  loader->join();
  const TimelineDocument document = bench.document();
  const auto calls = document.on_track("main", {"host"});
  CHECK(test::overlaps(calls) == 0);
  std::map<std::string, std::size_t> counts;
  for (const Slice& call : calls) ++counts[call.name];
  CHECK(counts["launch"] == 6);
  CHECK(counts["copy"] == 6);
  const auto others = document.on_track("loader", {"host"});
  REQUIRE(others.size() == 1);
  CHECK(others[0].name == "synchronize_stream");
}

TEST_CASE("counters end at the allocator's values, and reach its peaks") {
  Bench bench{any_schedule()};
  const ScopeId scope = bench.allocator.open_scope();
  const Buffer kept{bench.allocator, 3 * MiB, bench.main};
  bench.run(9);
  const TimelineDocument document = bench.document();
  const MemoryGauges gauges = bench.allocator.peaks(scope);
  const auto counter = [&](const char* name) { return document.counter("memory", name); };
  CHECK(counter("reserved").back() == gauges.reserved.current);
  CHECK(counter("active").back() == gauges.active.current);
  CHECK(counter("stranded").back() == bench.allocator.usable(bench.main).stranded);
  const auto reserved = counter("reserved");
  CHECK(*std::max_element(reserved.begin(), reserved.end()) == gauges.reserved.peak);
  CHECK(gauges.active.current >= 3 * MiB);
}

TEST_CASE("an allocator that does not know its stranded bytes has no such counter") {
  Bench bench{{}, {}, false};
  bench.timeline.attach(bench.machine);
  bench.timeline.attach(bench.device);
  bench.timeline.watch(bench.allocator, "pool");
  bench.run(2);
  const TimelineDocument document = bench.document();
  CHECK_FALSE(document.counter("pool", "reserved").empty());
  CHECK(document.counter("pool", "stranded").empty());
}

TEST_CASE("the same program and seed give the same bytes of a timeline") {
  const VirtualMachine::Options options = any_schedule();
  std::set<std::string> texts;
  for (int i = 0; i < 3; ++i) {
    Bench bench{options};
    bench.timeline.note("seed", "7");
    bench.run(8);
    bench.timeline.stop();
    texts.insert(bench.text());
  }
  CHECK(texts.size() == 1);
}

TEST_CASE("recording a timeline does not change a virtual run") {
  const VirtualMachine::Options options = any_schedule();
  const auto outcome = [&](bool record) {
    Bench bench{options, {}, record};
    const test::Timeline seen{bench.machine};
    bench.run(12);
    std::ostringstream all;
    for (const auto& entry : seen.entries()) {
      all << entry.name << ' ' << entry.begin.count() << ' ' << entry.end.count() << '\n';
    }
    all << bench.machine.now().count() << ' ' << bench.device.calls() << ' '
        << bench.allocator.statistics().counts.served_ordered;
    return all.str();
  };
  CHECK(outcome(true) == outcome(false));
}

TEST_CASE("a timeline at its limit counts the events that it leaves out, and stays valid") {
  const std::size_t most = GENERATE(0, 1, 100);
  Bench bounded{{}, {.most_events = most}};
  Bench whole;
  bounded.run(20);
  whole.run(20);
  const TimelineDocument document = bounded.document();
  CHECK(bounded.timeline.recorded() == most);
  whole.timeline.stop();
  CHECK(whole.timeline.left_out() == 0);
  CHECK(bounded.timeline.left_out() > 0);
  CHECK(document.json.at("otherData").at("events") == most);
  CHECK(document.json.at("otherData").at("events_left_out") == bounded.timeline.left_out());
  CHECK(bounded.text().size() < 4096 + 600 * most);
}

TEST_CASE("metadata has the latest note of each name, with any characters") {
  Bench bench;
  bench.timeline.note("device", "none");
  bench.timeline.note("seed", "41");
  bench.timeline.note("device", "virtual:h200");
  bench.timeline.note("a \"key\"", "back\\slash\n\xff");
  const TimelineDocument document = bench.document();
  const auto& notes = document.json.at("otherData");
  CHECK(notes.at("device") == "virtual:h200");
  CHECK(notes.at("seed") == "41");
  CHECK(notes.at("schema") == "millrace.timeline/1");
  CHECK(notes.contains("a \"key\""));
}

TEST_CASE("without a machine, host calls are recorded by the host's clock") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device({.memory_bytes = std::size_t{1} << 30, .data = false});
  Timeline timeline;
  timeline.attach(device);
  const EventHandle event = device.create_event();
  device.record(event, device.legacy_stream());
  device.synchronize(event);
  timeline.stop();
  std::ostringstream out;
  timeline.write(out);
  const TimelineDocument document{out.str()};
  CHECK(document.on_track("thread 1", {"host"}).size() == 3);
  CHECK(document.slices({"operation", "order"}).empty());
}

TEST_CASE("a second machine, or a machine after its devices, is refused") {
  VirtualMachine machine;
  Timeline timeline;
  timeline.attach(machine);
  VirtualMachine other;
  CHECK_THROWS_AS(timeline.attach(other), std::logic_error);
  timeline.stop();
  timeline.attach(other.add_device({.memory_bytes = std::size_t{1} << 30, .data = false}));
  CHECK_THROWS_AS(timeline.attach(other), std::logic_error);
  timeline.stop();
}

}  // namespace millrace
