#include <array>
#include <vector>

#include "allocator/cases/case.hpp"
#include "allocator/measure/draws.hpp"

// Loops with blocks of one size.

namespace millrace::bench {
namespace {

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr unsigned kMain = 0, kSide = 1;

/// Frees each block before the next allocation, on each stream in turn.
Measured in_turn(const SubjectRow& row, const Setting& setting, std::size_t bytes,
                 unsigned streams) {
  Trial trial{row, setting, streams};
  Subject& subject = trial.subject();
  unsigned stream = 0;
  const auto pair = [&] {
    subject.free(subject.allocate(bytes, stream), bytes, stream);
    if (++stream == streams) stream = 0;
  };
  if (trial.warm_up(4UL * streams, pair)) trial.measure(pair);
  return trial.result(bytes);
}

/// A few blocks are live at a time. Another stream uses every `used_each`th block; 0: none.
Measured with_uses(const SubjectRow& row, const Setting& setting, unsigned used_each) {
  constexpr std::size_t kLive = 64, kBytes = 4 * kKiB;
  static constexpr std::array<unsigned, 1> kUsers{kSide};
  Trial trial{row, setting, 2};
  Subject& subject = trial.subject();
  std::vector<void*> live(kLive);
  std::size_t at = 0;
  unsigned count = 0;
  const auto pair = [&] {
    void*& block = live[at];
    if (used_each != 0 && ++count == used_each) {
      count = 0;
      subject.free_used(block, kBytes, kMain, kUsers);
    } else {
      subject.free(block, kBytes, kMain);
    }
    block = subject.allocate(kBytes, kMain);
    if (++at == kLive) at = 0;
  };
  bool ready =
      trial.set_up(kLive, [&](std::uint64_t i) { live[i] = subject.allocate(kBytes, kMain); });
  ready = ready && trial.warm_up(4 * kLive, pair);
  if (ready) trial.measure(pair);
  for (void* const block : live) trial.leave({block, kBytes, kMain});
  return trial.result(kLive * kBytes);
}

}  // namespace

void add_loops(Cases& cases) {
  const auto add = [&](const char* suite, const char* name, auto run) {
    cases.all.push_back({.suite = suite, .name = name, .run = run});
  };
  add("one-size", "4KiB",
      [](const auto& row, const auto& setting) { return in_turn(row, setting, 4 * kKiB, 1); });
  add("one-size", "4MiB",
      [](const auto& row, const auto& setting) { return in_turn(row, setting, 4 * kMiB, 1); });
  add("streams", "4-in-turn",
      [](const auto& row, const auto& setting) { return in_turn(row, setting, 4 * kKiB, 4); });
  add("streams", "32-in-turn",
      [](const auto& row, const auto& setting) { return in_turn(row, setting, 4 * kKiB, 32); });
  add("uses", "none",
      [](const auto& row, const auto& setting) { return with_uses(row, setting, 0); });
  add("uses", "a-quarter",
      [](const auto& row, const auto& setting) { return with_uses(row, setting, 4); });
}

}  // namespace millrace::bench
