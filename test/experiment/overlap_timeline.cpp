#include <algorithm>
#include <string>
#include <vector>

#include "test/experiment/loop_bench.hpp"
#include "test/support/catch.hpp"

// Properties of the published traces of these pipelines, checked on our timeline.

using namespace millrace;
using namespace millrace::experiment;
using namespace millrace::test;

namespace {

struct Ran {
  std::string name, stream;
  std::uint64_t index = 0;
  Nanoseconds begin{0}, end{0};
};

class Recorder final : private TimelineObserver {
 public:
  explicit Recorder(VirtualMachine& machine) : machine_(machine) { machine.add_timeline(*this); }
  ~Recorder() override { machine_.remove_timeline(*this); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The operations with these names, in the order in which the host enqueued them.
  [[nodiscard]] std::vector<Ran> of(const std::vector<std::string>& names) const {
    std::vector<Ran> some;
    for (const Ran& ran : all_) {
      if (std::find(names.begin(), names.end(), ran.name) != names.end()) some.push_back(ran);
    }
    std::sort(some.begin(), some.end(),
              [](const Ran& a, const Ran& b) { return a.index < b.index; });
    return some;
  }

 private:
  void executed(const ExecutedOperation& operation) override {
    all_.push_back({std::string{operation.name}, std::string{operation.stream_name},
                    operation.index, operation.begin, operation.end});
  }

  VirtualMachine& machine_;
  std::vector<Ran> all_;
};

/// A loop of fused-sparse-dist, and its operations.
struct Traced {
  Traced(const LookupOptions& lookup, PipelineKind kind = PipelineKind::fused_sparse_dist,
         const StaleOptions& stale = {}) {
    Workload workload = small_workload(kind).scaled_to(std::size_t{64} << 20);
    workload.activations = std::size_t{128} << 20;
    TimelineClock clock{bench.machine, kMainStream};
    static_cast<void>(bench.run(workload, clock, {.lookup = lookup, .stale = stale}));
  }

  LoopBench bench;
  Recorder recorder{bench.machine};
};

const std::string kFirstLookup = "look up unweighted", kLastLookup = "exchange pooled",
                  kLastUpdate = "update weighted";

}  // namespace

TEST_CASE("the lookup directly follows the update of the tables on its stream") {
  const LookupPosition position =
      GENERATE(LookupPosition::after_optimizer, LookupPosition::before_optimizer);
  const LookupStream stream = GENERATE(LookupStream::data_dist, LookupStream::own);
  const Traced traced{{.position = position, .stream = stream}};
  const std::string on = stream == LookupStream::own ? "lookup" : "data-dist";
  const std::vector<Ran> ran = traced.recorder.of(
      {kFirstLookup, kLastUpdate, "permute", "exchange features", "arrange features"});
  std::size_t followed = 0;
  for (std::size_t i = 0; i < ran.size(); ++i) {
    if (ran[i].name != kLastUpdate) continue;
    CHECK(ran[i].stream == on);
    const auto next = std::find_if(ran.begin() + static_cast<std::ptrdiff_t>(i) + 1, ran.end(),
                                   [&](const Ran& later) {
                                     // With coarse waits, features are arranged just before.
                                     return later.stream == on && later.name != "arrange features";
                                   });
    if (next == ran.end()) continue;
    CHECK(next->name == kFirstLookup);
    ++followed;
  }
  CHECK(followed == 9);
}

TEST_CASE("the dense optimizer overlaps the tables' update, except on one stream") {
  const LookupStream stream = GENERATE(from_range(kLookupStreams));
  const Traced traced{{.stream = stream}};
  const std::vector<Ran> updates = traced.recorder.of({kLastUpdate});
  const std::vector<Ran> optimizers = traced.recorder.of({"optimizer"});
  REQUIRE(updates.size() == optimizers.size());
  for (std::size_t i = 0; i < updates.size(); ++i) {
    CHECK((optimizers[i].begin < updates[i].end) == (stream != LookupStream::main));
  }
}

TEST_CASE("the next exchange overlaps a lookup on its own stream, not on the shared stream") {
  const LookupStream stream = GENERATE(LookupStream::data_dist, LookupStream::own);
  const Traced traced{{.stream = stream}};
  const std::vector<Ran> ran = traced.recorder.of({kLastLookup, "permute"});
  std::size_t compared = 0;
  for (std::size_t i = 1; i < ran.size(); ++i) {
    if (ran[i].name != "permute" || ran[i - 1].name != kLastLookup) continue;
    if (compared++ == 0) continue;  // the second batch is still being copied
    CHECK((ran[i].begin < ran[i - 1].end) == (stream == LookupStream::own));
  }
  CHECK(compared >= 8);
}

TEST_CASE("once stale, semi-sync looks up the next batch between forward and backward") {
  const Traced traced{{}, PipelineKind::semi_sync, {.start_batch = 4}};
  const std::vector<Ran> ran = traced.recorder.of({kFirstLookup, "loss", "loss backward"});
  std::size_t step = 0, between = 0;
  for (std::size_t i = 1; i < ran.size(); ++i) {
    if (ran[i].name != "loss backward") continue;
    const bool stale = ran[i - 1].name == kFirstLookup;
    if (step + 1 < 10) CHECK(stale == (step >= 4));
    between += stale ? 1 : 0;
    ++step;
  }
  CHECK(step == 10);
  CHECK(between == 5);
}
