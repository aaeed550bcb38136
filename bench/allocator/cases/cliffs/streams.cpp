#include <vector>

#include "allocator/cases/cliffs/cliff.hpp"
#include "millrace/device/ordered_device.hpp"

// Costs that must not grow with the number of streams.

namespace millrace::bench {
namespace {

/// The first allocations of a stream while n other streams have a free block each. The very first
/// request sorts the freed blocks, and is not measured.
Measured foreign_lanes(const SubjectRow& row, const Setting& setting, std::size_t n) {
  const auto streams = static_cast<unsigned>(n);
  std::vector<void*> blocks(n);
  Trial trial{row, setting, streams + 1};
  Subject& subject = trial.subject();
  // All blocks are allocated before the first free, so that no block serves two streams.
  bool ready = trial.set_up(n, [&](std::uint64_t i) {
    blocks[i] = subject.allocate(kLargeBlock, static_cast<unsigned>(i));
  });
  ready = ready && trial.set_up(n, [&](std::uint64_t i) {
    subject.free(blocks[i], kLargeBlock, static_cast<unsigned>(i));
  });
  const auto allocate = [&] {
    trial.leave({subject.allocate(kLargeBlock, streams), kLargeBlock, streams});
  };
  if (ready && trial.warm_up(1, allocate)) trial.measure(allocate, n / 2);
  return trial.result(n * kLargeBlock);
}

/// Streams that are used for one pair and never again, after n such streams.
Measured one_shot(const SubjectRow& row, const Setting& setting, std::size_t n) {
  constexpr std::size_t kBytes = 4096;
  Trial trial{row, setting, 1};
  const auto use = [&] { trial.subject().use_one_shot_stream(kBytes); };
  trial.begin_host_bytes();
  if (trial.set_up(n, [&](std::uint64_t) { use(); })) {
    trial.end_host_bytes(n);
    trial.measure(use, n / 10);
  }
  return trial.result(kBytes);
}

/// A poll while n streams have work in flight. It queries each of them. The result is the time per
/// stream.
Measured in_flight(const SubjectRow& row, const Setting& setting, std::size_t n) {
  Trial trial{row, setting, static_cast<unsigned>(n)};
  trial.machine().set_busy(true);
  OrderedDevice& device = trial.millrace().device;
  const bool ready =
      trial.set_up(n, [&](std::uint64_t i) { trial.subject().mark(static_cast<unsigned>(i)); });
  if (ready) trial.measure([&] { device.poll(); }, UINT64_MAX, n);
  return trial.result(0);
}

/// A marker on the legacy stream, which synchronizes with n blocking streams.
Measured legacy_mark(const SubjectRow& row, const Setting& setting, std::size_t n) {
  Trial trial{row, setting, 0};
  OrderedDevice& device = trial.millrace().device;
  const StreamRef legacy = device.attach(trial.machine().device().legacy_stream());
  const bool ready = trial.set_up(
      n, [&](std::uint64_t) { (void)device.attach(trial.machine().create_stream(true)); });
  if (ready) trial.measure([&] { device.mark(legacy); });
  return trial.result(0);
}

}  // namespace

void add_stream_cliffs(Cases& cases) {
  add_cliff(cases, "foreign-lanes", {1'000, 10'000, 100'000}, foreign_lanes,
            {.unit = "allocation"});
  add_cliff(cases, "one-shot-streams", {1'000, 4'000, 16'000}, one_shot);
  add_cliff(cases, "poll-streams-in-flight", {100, 1'000, 10'000}, in_flight,
            {.unit = "stream", .subjects = Case::For::millrace, .needs_idle_control = true});
  add_cliff(cases, "mark-on-legacy", {10, 100, 1'000, 10'000}, legacy_mark,
            {.unit = "mark", .subjects = Case::For::millrace});
}

}  // namespace millrace::bench
