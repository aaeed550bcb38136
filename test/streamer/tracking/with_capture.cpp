#include "test/streamer/capture/capture_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

std::set<TrainingRig::RowName> read(CaptureRig& rig) {
  std::set<TrainingRig::RowName> names;
  rig.use_tables_on(rig.main);
  const auto range = rig.capture->tracker().read(
      "c", RowContent::weights, rig.main, [&](const CapturedRows& rows) {
        rows.visit(1, [&](const RowRecord& row) { names.insert({row.table, row.row}); });
        return true;
      });
  CHECK(range.complete);
  return names;
}

}  // namespace

TEST_CASE("a consumer of a capture's tracker reads all changes, whatever the capture delivers") {
  const auto mode = GENERATE(from_range(kCaptureModes));
  CaptureCase what = draw_case(mode, seed());
  what.steps = 6;
  INFO(what.name());
  CaptureRig rig{what};
  rig.step();
  rig.capture->tracker().add_consumer("c");
  CHECK(rig.capture->tracker().cursor("c") == 1);
  std::set<TrainingRig::RowName> changed;
  for (std::size_t step = 2; step <= 6; ++step) {
    rig.step();
    changed.insert(rig.changed(step).begin(), rig.changed(step).end());
    if (step != 4) continue;
    CHECK(read(rig) == changed);
    changed.clear();
  }
  CHECK(read(rig) == changed);
  CHECK(rig.capture->tracker().counts().steps == 6);
  CHECK(rig.flush());
  CHECK(rig.compare() == "");
  CHECK(rig.races() == std::vector<std::string>{});
}

TEST_CASE("rows that a capture could not deliver take no consumer and no memory under the cap") {
  CaptureRig rig{{.options = {.slots = 1, .when_full = WhenFull::mark_dirty}, .steps = 4}};
  CHECK(rig.capture->tracker().consumers().empty());
  CHECK(rig.capture->tracker().memory() == 0);
  rig.train();
  CHECK(rig.flush());
  CHECK(rig.compare() == "");
}
