#include <array>
#include <vector>

#include "allocator/cases/cliffs/cliff.hpp"
#include "millrace/device/ordered_device.hpp"
#include "millrace/memory/caching_allocator.hpp"

// Costs that must not grow with the number of markers, and of blocks that wait for markers.

namespace millrace::bench {
namespace {

constexpr std::size_t kBytes = 4096;
constexpr unsigned kOwner = 0, kUser = 1, kUnrelated = 2;
constexpr std::array<unsigned, 1> kUsers{kUser};

/// n freed blocks wait for a stream that also used them, while another stream makes pairs. With the
/// preset torch these blocks are pending.
Measured draining(const SubjectRow& row, const Setting& setting, std::size_t n) {
  Trial trial{row, setting, 3};
  Subject& subject = trial.subject();
  trial.machine().set_busy(true);
  std::vector<void*> blocks;
  const auto pair = [&] { subject.free(subject.allocate(kBytes, kUnrelated), kBytes, kUnrelated); };
  bool ready = trial.warm_up(1, pair);
  ready = ready && carve(trial, blocks, n, kOwner);
  ready = ready && trial.set_up(n, [&](std::uint64_t i) {
    subject.free_used(blocks[i], kLargeBlock, kOwner, kUsers);
  });
  if (ready) {
    trial.measure(pair);
  }
  return trial.result(n * kLargeBlock);
}

/// A poll that finds n markers of one stream complete. The result is the time per marker.
Measured complete_markers(const SubjectRow& row, const Setting& setting, std::size_t n) {
  Trial trial{row, setting, 1};
  trial.machine().set_busy(true);
  OrderedDevice& device = trial.millrace().device;
  if (trial.set_up(n, [&](std::uint64_t) { trial.subject().mark(0); })) {
    trial.machine().set_busy(false);
    trial.measure([&] { device.poll(); }, 1, n);
  }
  return trial.result(0);
}

/// A host callback frees a block that another stream used. The poll after it records the markers
/// that the callback could not record. Before the measurement, another callback frees n blocks in
/// this way, and the first poll records their markers. No marker is complete. Many polls are
/// measured, because a single poll would mainly show cache misses caused by the n frees.
Measured owed_marks(const SubjectRow& row, const Setting& setting, std::size_t n) {
  constexpr std::size_t kCallbacks = 256;
  Trial trial{row, setting, 2};
  Subject& subject = trial.subject();
  OrderedDevice& device = trial.millrace().device;
  trial.machine().set_busy(true);
  std::vector<void*> blocks;
  if (!carve(trial, blocks, n + kCallbacks, kOwner)) return trial.result(n * kLargeBlock);
  const StreamHandle stream = trial.machine().create_stream(false);
  const auto free_one = [&](std::size_t i) {
    subject.free_used(blocks[i], kLargeBlock, kOwner, kUsers);
  };
  bool ready = false;
  trial.machine().device().callback(stream, [&] { ready = trial.set_up(n, free_one); });
  if (ready) {
    std::size_t next = n;
    const auto step = [&] {
      trial.machine().device().callback(stream, [&] { free_one(next++); });
      device.poll();
    };
    trial.measure(step, kCallbacks);
  }
  return trial.result(n * kLargeBlock);
}

}  // namespace

void add_marker_cliffs(Cases& cases) {
  const auto sizes = {std::size_t{1'000}, std::size_t{10'000}, std::size_t{100'000}};
  add_cliff(cases, "draining-pair-elsewhere", sizes, draining, {.needs_idle_control = true});
  add_cliff(cases, "poll-complete-markers", sizes, complete_markers,
            {.unit = "marker", .subjects = Case::For::millrace, .needs_idle_control = true});
  add_cliff(cases, "owed-marks-of-a-callback", sizes, owed_marks,
            {.unit = "poll", .subjects = Case::For::millrace, .needs_idle_control = true});
}

}  // namespace millrace::bench
