#include <functional>

#include "millrace/device/fault.hpp"
#include "test/streamer/capture/capture_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// Stands between tables and their capture, and lets driver calls fail while the capture is called.
class Failing final : public RowUpdateObserver {
 public:
  Failing(CaptureRig& rig, std::function<void(FaultInjector&)> fail)
      : rig_(rig), faults_(rig.program_device), fail_(std::move(fail)) {
    rig.bags->remove_observer(*rig.capture);
    rig.bags->add_observer(*this);
  }
  ~Failing() override {
    rig_.bags->remove_observer(*this);
    rig_.bags->add_observer(*rig_.capture);
  }
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;

  void rows_updated(const RowUpdate& update) override {
    fail_(faults_);
    rig_.capture->rows_updated(update);
    faults_.clear();
  }
  void rows_will_move(StreamRef stream) override {
    fail_(faults_);
    rig_.capture->rows_will_move(stream);
    faults_.clear();
  }

  [[nodiscard]] std::uint64_t injected() const { return faults_.injected(); }

 private:
  CaptureRig& rig_;
  FaultInjector faults_;
  std::function<void(FaultInjector&)> fail_;
};

CaptureCase case_of(CaptureMode mode, GatherOn gather_on, bool cached, std::uint64_t data) {
  return {.options = {.mode = mode,
                      .content = RowContent::weights_and_state,
                      .slots = 2,
                      .slot_bytes = 2000,
                      .gather_on = gather_on},
          .cached = cached,
          .schedule = data,
          .data = data};
}

}  // namespace

TEST_CASE("after any call fails during a capture, all rows are delivered later") {
  const auto mode = GENERATE(from_range(kCaptureModes));
  const auto gather_on = GENERATE(GatherOn::update_stream, GatherOn::own_stream);
  const bool cached = GENERATE(false, true);
  for (std::uint64_t call = 1; call < 24; ++call) {
    const CaptureCase what = case_of(mode, gather_on, cached, seed() + call);
    INFO(what.name() << ", call " << call);
    CaptureRig rig{what};
    std::uint64_t injected = 0;
    {
      Failing failing{rig, [&](FaultInjector& faults) {
                        faults.fail_call(
                            call, call % 2 == 0 ? ErrorCode::unknown : ErrorCode::out_of_memory);
                      }};
      rig.train();
      injected = failing.injected();
    }
    CHECK(rig.flush());
    CHECK(rig.compare() == "");
    if (injected != 0) CHECK(rig.capture->counts().failures > 0);
  }
}

TEST_CASE("after every call of a kind fails during captures, all rows are delivered later") {
  const auto kind = GENERATE(Call::launch, Call::record, Call::wait, Call::copy);
  const auto gather_on = GENERATE(GatherOn::update_stream, GatherOn::own_stream);
  const CaptureCase what = case_of(CaptureMode::ring, gather_on, false, seed());
  INFO(what.name() << ", " << to_string(kind));
  CaptureRig rig{what};
  {
    Failing failing{rig,
                    [&](FaultInjector& faults) { faults.fail_each(kind, ErrorCode::unknown); }};
    rig.train();
  }
  CHECK(rig.flush());
  CHECK(rig.compare() == "");
}

TEST_CASE("failed copies of the copier are repeated with later steps") {
  const auto kind = GENERATE(Call::copy, Call::synchronize_stream, Call::wait);
  const auto number = GENERATE(1, 2, 3, 5, 8);
  CaptureCase what = case_of(CaptureMode::ring, GatherOn::update_stream, false, seed());
  what.schedule = 0;
  INFO(what.name() << ", " << to_string(kind) << " " << number);
  CaptureRig rig{what};
  FaultInjector faults{rig.program_device};
  faults.fail(kind, static_cast<std::uint64_t>(number), ErrorCode::unknown);
  rig.train();
  CHECK(rig.flush());
  CHECK(rig.capture->counts().failures == faults.injected());
  faults.clear();
  CHECK(rig.compare() == "");
  CHECK(rig.races().empty());
}

TEST_CASE("a lost device is reported as failures, and the copier stops cleanly") {
  CaptureCase what = case_of(CaptureMode::ring, GatherOn::update_stream, false, seed());
  what.schedule = 0;
  CaptureRig rig{what};
  rig.step();
  FaultInjector faults{rig.program_device};
  {
    Failing failing{rig, [&](FaultInjector&) {}};
    faults.fail(Call::launch, 1, ErrorCode::device_lost);
    const RowUpdate nothing{.step = 2, .stream = rig.main, .tables = rig.bags->tables()};
    rig.capture->mark_all_dirty();
    rig.capture->rows_updated(nothing);
  }
  CHECK_FALSE(rig.flush(std::chrono::milliseconds{10}));
  rig.capture->stop();
  CHECK(rig.capture->counts().failures > 0);
  CHECK(rig.capture->dirty());
}
