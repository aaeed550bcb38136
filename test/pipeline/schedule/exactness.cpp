#include <cstdlib>
#include <string>

#include "test/pipeline/schedule/pipeline_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr std::size_t kBatches = 14;

/// Adversarial schedules of each cell: MILLRACE_SCHEDULES, or 10.
std::uint64_t schedules() {
  const char* const given = std::getenv("MILLRACE_SCHEDULES");
  return given == nullptr ? 10 : std::stoull(given);
}

/// With the driver's pool the checker does not see what is ordered.
bool checked(const PipelineCase& what) { return what.copy != CopyMethod::driver_async; }

}  // namespace

TEST_CASE(
    "law 6: every pipeline, copy strategy and kind of waits gives the bits of the plain loop "
    "under every schedule, and leaves no edge out",
    "[law6]") {
  const std::vector<float> expected = plainly_trained(kBatches);
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  for (PipelineCase what : all_cases()) {
    if (what.kind != kind) continue;
    for (std::uint64_t i = 0; i <= schedules(); ++i) {
      what.schedule = i == 0 ? 0 : test::seed() * 1000 + i;
      INFO(what.name());
      PipelineRig rig{what};
      auto pipeline = rig.make();
      RigSource source{rig, 0, kBatches};
      while (pipeline->progress(source)) {
      }
      CHECK(pipeline->steps() == kBatches);
      pipeline.reset();
      CHECK(rig.model.parameters() == expected);
      if (checked(what)) CHECK(rig.races() == std::vector<std::string>{});
      CHECK(rig.live_blocks() == 0);
    }
  }
}
