// Host memory runs out while a step is shipped.
#include <map>
#include <new>
#include <set>

#include "ship/pending_recaptures.hpp"
#include "test/streamer/ship/ship_rig.hpp"
#include "test/support/host_memory/failing_host_memory.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;
using millrace::ship::PendingRecaptures;

namespace {

std::set<std::int64_t> rows_from(std::int64_t first, std::int64_t count) {
  std::set<std::int64_t> rows;
  for (std::int64_t row = first; row < first + count; ++row) rows.insert(row);
  return rows;
}

/// Offers a step as RowStreamer does, while `failures` allocations fail, from allocation `number`
/// on. @return false if there are fewer allocations
bool offer_without_memory(ShipRig& rig, const std::set<std::int64_t>& changed, std::uint64_t number,
                          std::uint64_t failures) {
  Shipment shipment = rig.trainer.step(changed, rig.machine.now());
  try {
    const FailingHostMemory failing{number, failures};
    rig.shipper.offer(std::move(shipment), rig.machine.executor());
  } catch (const std::bad_alloc&) {
    rig.shipper.rows_lost(rig.trainer.recapture_all());
  }
  return FailingHostMemory::failed();
}

}  // namespace

TEST_CASE("a step offered without host memory is missing until it is delivered later") {
  const auto policy = GENERATE(QueuePolicy::coalesce, QueuePolicy::recapture);
  const std::uint64_t failures = GENERATE(1, 2, 3);
  bool up = false;
  for (std::uint64_t number = 1;; ++number) {
    INFO(to_string(policy) << ", " << failures << " allocations from " << number);
    up = false;
    ShipRig rig{[&](const std::string& call) {
                  if (!up && call == "write") throw SinkError{SinkError::Kind::retry, "down"};
                },
                {.queue_bytes = 200, .when_full = policy, .longest_retry = 1s}};
    rig.step(rows_from(0, 3));
    rig.machine.executor().spend(1ms);
    rig.step(rows_from(2, 3));  // the first step waits in a call of the sink
    const bool failed = offer_without_memory(rig, rows_from(4, 20), number, failures);
    const std::map<std::int64_t, float> wanted = rig.trainer.table();
    up = true;
    REQUIRE(rig.shipper.drain(1h));
    const bool complete = rig.memory->state().missing() == 0;
    CHECK(rig.shipper.report().missing >= rig.trainer.dirty().size());
    if (complete) CHECK(ship_rows_of(*rig.memory) == wanted);
    REQUIRE(rig.settle());
    CHECK(ship_rows_of(*rig.memory) == rig.trainer.table());
    if (!failed) break;
    REQUIRE(number < 100);
  }
}

TEST_CASE("rows that are lost before the offer are missing until they are delivered") {
  ShipRig rig;
  rig.step({1});
  REQUIRE(rig.settle());
  static_cast<void>(rig.trainer.step({5}, rig.machine.now()));  // its rows are lost
  rig.shipper.rows_lost(rig.trainer.recapture_all());
  CHECK(rig.shipper.report().missing == kShipRows);
  rig.step({});
  REQUIRE(rig.settle());
  CHECK(rig.memory->state().missing() == 0);
  CHECK(ship_rows_of(*rig.memory) == rig.trainer.table());
}

TEST_CASE("without host memory a recapture is merged with the previous one") {
  PendingRecaptures pending;
  pending.add(3, 10);
  {
    const FailingHostMemory failing{1};
    pending.add(5, 7);
  }
  CHECK(FailingHostMemory::failed());
  CHECK(pending.missing_now() == 17);
  CHECK(pending.drop_included(4) == 17);
  CHECK(pending.drop_included(5) == 0);
}
