#include <vector>

#include "allocator/cases/case.hpp"
#include "allocator/measure/draws.hpp"

namespace millrace::bench {
namespace {

constexpr std::size_t kLive = 1'000;
constexpr double kSmallest = 256, kLargest = 64 << 20;
constexpr std::uint64_t kStepsPerMark = 100;

/// Replaces blocks of random sizes on random streams for a long time. It shows how far the reserved
/// bytes grow above the live bytes.
Measured churn(const SubjectRow& row, const Setting& setting, unsigned streams, bool marks) {
  Draws draws{setting.seed, kSmallest, kLargest};
  std::vector<Held> held(kLive);
  Trial trial{row, setting, streams};
  Subject& subject = trial.subject();
  LiveBytes bytes;
  const auto fill = [&](Held& block, std::size_t size, unsigned stream) {
    block = {subject.allocate(size, stream), size, stream};
    bytes.add(size);
  };
  const auto step = [&](std::uint64_t i) {
    const Draw& draw = draws.next();
    const unsigned stream = draw.choice % streams;
    Held& block = held[draw.victim(kLive)];
    subject.free(block.address, block.bytes, block.stream);
    block.address = nullptr;
    bytes.subtract(block.bytes);
    fill(block, draw.bytes, stream);
    if (marks && i % kStepsPerMark == 0) {
      for (unsigned each = 0; each < streams; ++each) subject.mark(each);
    }
  };
  const bool ready = trial.set_up(kLive, [&](std::uint64_t i) {
    fill(held[i], draws.next().bytes, static_cast<unsigned>(i) % streams);
  });
  if (ready) trial.measure_all(setting.scale.churn_steps, step);
  for (const Held& block : held) trial.leave(block);
  return trial.result(bytes.peak());
}

}  // namespace

void add_churn(Cases& cases) {
  for (const unsigned streams : {1U, 4U}) {
    for (const bool marks : {true, false}) {
      const std::string name = std::to_string(streams) + (streams == 1 ? "-stream" : "-streams") +
                               (marks ? "-marks" : "-no-marks");
      Case each{.suite = "churn",
                .name = name,
                .run = [=](const auto& row,
                           const auto& setting) { return churn(row, setting, streams, marks); },
                .live = kLive,
                .limit_seconds = 6};
      cases.all.push_back(each);
      each.name += "-32MiB-pages";
      each.subjects = Case::For::millrace;
      each.run = [=](const auto& row, Setting setting) {
        setting.page = kLargePage;
        return churn(row, setting, streams, marks);
      };
      cases.all.push_back(each);
    }
  }
}

}  // namespace millrace::bench
