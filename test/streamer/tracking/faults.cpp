#include <optional>

#include "millrace/device/fault.hpp"
#include "test/streamer/tracking/tracker_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// From call `number` on, all calls fail, of one kind or of all kinds. Work that is already
/// enqueued still runs.
class FailingFrom final : public DeviceObserver {
 public:
  FailingFrom(Device& device, std::optional<Call> kind, std::uint64_t number)
      : device_(device), kind_(kind), left_(number) {
    device_.add_observer(*this);
  }
  ~FailingFrom() override { device_.remove_observer(*this); }

  void before(Call call) override {
    if (kind_ && call != *kind_) return;
    if (left_ > 1) {
      --left_;
      return;
    }
    failed = true;
    throw DeviceError{ErrorCode::unknown, to_string(call), "injected"};
  }
  bool failed = false;

 private:
  Device& device_;
  const std::optional<Call> kind_;
  std::uint64_t left_;
};

enum class Ends { whole, refused, thrown, put_back };

class Thrown {};

/// Reads while calls fail, then reads again without failures.
void check(TrackerRig& rig, Ends ends, std::optional<Call> kind, std::uint64_t from, bool& failed) {
  rig.tracker->add_consumer("c");
  std::set<TrainingRig::RowName> changed, delivered;
  for (std::size_t step = 1; step <= 4; ++step) {
    rig.step();
    changed.insert(rig.changed(step).begin(), rig.changed(step).end());
  }
  const auto names = [](const CapturedRows& rows) {
    std::set<TrainingRig::RowName> names;
    rows.visit(1, [&](const RowRecord& row) { names.insert({row.table, row.row}); });
    return names;
  };
  {
    FailingFrom failing{rig.program_device, kind, from};
    unsigned chunks = 0;
    try {
      rig.tracker->read("c", RowContent::weights, rig.tables_on(), [&](const CapturedRows& rows) {
        const bool last = ++chunks == 3;
        if (last && ends == Ends::refused) return false;
        if (last && ends == Ends::thrown) throw Thrown{};
        if (last && ends == Ends::put_back) {
          rig.tracker->put_back("c", rows, rig.tables_on());
        } else {
          delivered.merge(names(rows));
        }
        return true;
      });
    } catch (const DeviceError&) {
    } catch (const out_of_memory&) {
    } catch (const Thrown&) {
    }
    failed = failing.failed;
  }
  delivered.merge(names_of(rig.read("c", RowContent::weights, rig.main)));
  for (const auto& row : changed) CHECK(delivered.contains(row));
  if (!failed) CHECK(delivered == changed);
  CHECK(rig.range.complete);
  CHECK(rig.tracker->cursor("c") == 4);
  CHECK(rig.read("c", RowContent::weights, rig.main).empty());
}

}  // namespace

TEST_CASE("no changed row is lost when calls fail, from whatever call on") {
  const auto ends = GENERATE(Ends::whole, Ends::refused, Ends::thrown, Ends::put_back);
  const auto kind = GENERATE(std::optional<Call>{}, std::optional{Call::launch},
                             std::optional{Call::copy}, std::optional{Call::synchronize_stream});
  const auto on = GENERATE(TrainsOn::main, TrainsOn::off_main);
  bool failed = true;
  for (std::uint64_t from = 1; failed && from < 200; ++from) {
    INFO(to_string(on) << ", from call " << from << ", ends " << static_cast<int>(ends));
    TrackerRig rig{TrainingCase{.cached = from % 2 == 0, .on = on, .schedule = seed()},
                   {.chunk_bytes = 1500}};
    check(rig, ends, kind, from, failed);
  }
  CHECK_FALSE(failed);
}
