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
}

}  // namespace millrace::bench
