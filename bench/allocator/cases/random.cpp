#include <algorithm>
#include <vector>

#include "allocator/cases/case.hpp"
#include "allocator/measure/draws.hpp"

namespace millrace::bench {
namespace {

constexpr double kSmallest = 512, kLargest = 4 << 20;
constexpr std::size_t kMostWarmUp = 200'000;

/// Keeps `live` blocks, and replaces a random block by one of random size.
Measured replace(const SubjectRow& row, const Setting& setting, std::size_t live) {
  Draws draws{setting.seed, kSmallest, kLargest};
  std::vector<Held> held(live);
  Trial trial{row, setting, 1};
  Subject& subject = trial.subject();
  LiveBytes bytes;
  const auto fill = [&](Held& block, std::size_t size) {
    block = {subject.allocate(size, 0), size, 0};
    bytes.add(size);
  };
  const auto replace_one = [&] {
    const Draw& draw = draws.next();
    Held& block = held[draw.victim(live)];
    subject.free(block.address, block.bytes, 0);
    block.address = nullptr;
    bytes.subtract(block.bytes);
    fill(block, draw.bytes);
  };
  bool ready = trial.set_up(1, [&](std::uint64_t) { fill(held[0], draws.next().bytes); });
  trial.begin_host_bytes();
  ready = ready &&
          trial.set_up(live - 1, [&](std::uint64_t i) { fill(held[i + 1], draws.next().bytes); });
  if (ready) {
    trial.end_host_bytes(live - 1);
    // Fill the caches.
    const std::size_t warm_up = std::min(2 * live, kMostWarmUp);
    if (trial.warm_up(warm_up, replace_one)) trial.measure(replace_one);
  }
  for (const Held& block : held) trial.leave(block);
  return trial.result(bytes.peak());
}

}  // namespace

void add_random(Cases& cases) {
  for (const std::size_t live : {1'000, 10'000, 100'000, 1'000'000}) {
    cases.all.push_back({.suite = "random",
                         .name = short_number(live) + "-live",
                         .run = [live](const auto& row,
                                       const auto& setting) { return replace(row, setting, live); },
                         .live = live,
                         .once = live == 1'000'000,
                         .limit_seconds = live == 1'000'000 ? 5.0 : 0.0});
  }
}

}  // namespace millrace::bench
