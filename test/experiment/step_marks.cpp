// The steps of a loop in its trace: each is named once, and a long run keeps the newest.
#include <string>
#include <vector>

#include "millrace/experiment/run_recording.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

std::vector<std::string> names(const experiment::StepMarks& steps) {
  std::vector<std::string> result;
  for (const AllocationTrace::Mark& mark : steps.marks()) result.push_back(mark.name);
  return result;
}

}  // namespace

TEST_CASE("steps that are reported together are one mark, and no step is marked twice") {
  const AllocationTrace trace;
  experiment::StepMarks steps{trace};
  steps.step_done();
  steps.steps_done(1);  // known already
  steps.steps_done(4);
  steps.step_done();
  CHECK(names(steps) == std::vector<std::string>{"step 1", "steps 2 to 4", "step 5", "end"});
}

TEST_CASE("a loop that continues after a checkpoint has the step numbers of the whole run") {
  const AllocationTrace trace;
  experiment::StepMarks steps{trace};
  steps.continue_after(9);
  steps.steps_done(10);
  steps.steps_done(12);
  CHECK(names(steps) == std::vector<std::string>{"step 10", "steps 11 to 12", "end"});
}

TEST_CASE("a long loop keeps its newest steps") {
  const AllocationTrace trace;
  experiment::StepMarks steps{trace};
  constexpr std::size_t kSteps = 5 * experiment::StepMarks::kMost;
  for (std::size_t i = 0; i < kSteps; ++i) steps.step_done();
  const std::vector<std::string> kept = names(steps);
  CHECK(kept.size() <= experiment::StepMarks::kMost + 1);
  CHECK(kept.size() >= experiment::StepMarks::kMost / 2);
  CHECK(kept.at(kept.size() - 2) == "step " + std::to_string(kSteps));
}

}  // namespace millrace::test
