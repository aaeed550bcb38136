#include "test/streamer/capture/capture_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

void check(const CaptureCase& what) {
  INFO(what.name());
  CaptureRig rig{what};
  rig.train();
  CHECK(rig.flush());
  CHECK(rig.receiver.missing == 0);
  CHECK_FALSE(rig.capture->dirty());
  CHECK(rig.receiver.steps.back() == what.steps);
  CHECK(std::is_sorted(rig.receiver.steps.begin(), rig.receiver.steps.end()));
  CHECK(rig.compare() == "");
  CHECK(rig.races().empty());
}

}  // namespace

TEST_CASE("in every mode the captured rows applied to the earlier snapshot give the tables") {
  const auto mode = GENERATE(from_range(kCaptureModes));
  for (std::uint64_t i = 0; i < 200; ++i) check(draw_case(mode, 1000 * seed() + i));
}
