#include <vector>

#include "allocator/cases/case.hpp"
#include "allocator/measure/draws.hpp"

namespace millrace::bench {
namespace {

constexpr double kSmallest = 512, kLargest = 4 << 20;

/// The first allocations of an allocator. Nothing is freed.
Measured first_allocations(const SubjectRow& row, const Setting& setting, std::size_t count) {
  Draws draws{setting.seed, kSmallest, kLargest};
  std::vector<Held> held(count);
  Trial trial{row, setting, 1};
  Subject& subject = trial.subject();
  LiveBytes bytes;
  trial.measure_all(count, [&](std::uint64_t i) {
    const std::size_t size = draws.next().bytes;
    held[i] = {subject.allocate(size, 0), size, 0};
    bytes.add(size);
  });
  for (const Held& block : held) trial.leave(block);
  return trial.result(bytes.peak());
}

/// Allocates many blocks of one size. Nothing is freed.
Measured fill(const SubjectRow& row, const Setting& setting, std::size_t count, std::size_t bytes) {
  Trial trial{row, setting, 1};
  std::vector<void*> blocks;
  blocks.reserve(count);
  const auto allocate = [&](std::uint64_t) {
    blocks.push_back(trial.subject().allocate(bytes, 0));
  };
  if (trial.set_up(1, allocate)) {
    trial.begin_host_bytes();
    trial.measure_all(count - 1, allocate);
    trial.end_host_bytes(blocks.size() - 1);
  }
  for (void* const block : blocks) trial.leave({block, bytes, 0});
  return trial.result(blocks.size() * bytes);
}

struct Filling {
  const char* name;
  std::size_t bytes;
};
constexpr Filling kFillings[] = {{"100k-of-512B", 512},
                                 {"100k-of-4KiB", 4096},
                                 {"100k-of-16KiB", 16384},
                                 {"100k-of-64KiB", 65536}};
constexpr std::size_t kFilled = 100'000;

}  // namespace

void add_cold(Cases& cases) {
  for (const std::size_t count : {1'000, 10'000}) {
    cases.all.push_back(
        {.suite = "cold",
         .name = "first-" + short_number(count),
         .run = [count](const auto& row,
                        const auto& setting) { return first_allocations(row, setting, count); },
         .live = count,
         .unit = "allocation"});
  }
  for (const auto& [name, bytes] : kFillings) {
    cases.all.push_back(
        {.suite = "cold",
         .name = name,
         .run = [bytes](const auto& row,
                        const auto& setting) { return fill(row, setting, kFilled, bytes); },
         .live = kFilled,
         .unit = "allocation"});
  }
}

}  // namespace millrace::bench
