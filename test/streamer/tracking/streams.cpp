#include "test/streamer/tracking/tracker_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("a read on any stream does not touch memory that main still uses") {
  const auto on = GENERATE(from_range(kTrainsOn));
  const bool cached = GENERATE(false, true);
  TrackerRig rig{TrainingCase{.cached = cached, .on = on, .schedule = seed()}};
  rig.tracker->add_consumer("c");
  Stream reader{rig.ordered, {.name = "reader"}};
  std::set<TrainingRig::RowName> changed;
  for (std::size_t step = 1; step <= 6; ++step) {
    rig.step();
    changed.insert(rig.changed(step).begin(), rig.changed(step).end());
    if (step % 2 != 0) continue;
    rig.churn_main();
    Stream& stream = step == 4 ? reader : rig.tables_on();
    const auto content = step == 6 ? RowContent::weights_and_state : RowContent::weights;
    const auto rows = rig.read("c", content, stream);
    CHECK(names_of(rows) == changed);
    CHECK(rig.compare(rows, content) == "");
    changed.clear();
  }
  CHECK(rig.races() == std::vector<std::string>{});
}
