// Rows that disappear from a sink, and a sink that a later trainer takes over.
#include <atomic>
#include <set>

#include "test/streamer/ship/ship_rig.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A sink with all rows in version 3:10, from which a trainer continues.
std::shared_ptr<MemorySink> whole_memory() {
  auto memory = std::make_shared<MemorySink>();
  memory->begin(ship_beginning().schema);
  StepBatch all;
  all.commit = {.version = {3, 10}, .step = 10};
  const float zero = 0;
  for (std::uint64_t row = 0; row < kShipRows; ++row) {
    all.add({.version = {3, 10}, .row = static_cast<std::int64_t>(row), .weights = {&zero, 1}});
  }
  memory->write(all);
  return memory;
}

Lineage gone_lineage() {
  Lineage lineage;
  lineage.extend({3, 10});
  return lineage;
}

}  // namespace

TEST_CASE("exactly the rows that vanished from a sink between two runs are sent again") {
  auto memory = whole_memory();
  for (const std::int64_t row : {0, 7, 63}) memory->forget(0, row);
  ShipRig rig{{}, {}, gone_lineage(), memory};
  REQUIRE(rig.shipper.drain(1h));
  CHECK(rig.trainer.snapshots() == 0);
  CHECK(rig.trainer.dirty() == std::set<std::int64_t>{0, 7, 63});
  CHECK(rig.shipper.report().missing == 3);
  REQUIRE(rig.settle());
  CHECK(ship_rows_of(*memory) == rig.trainer.table());
}

TEST_CASE("an audit during a run sends the rows again that vanished from the sink") {
  ShipRig rig;
  rig.step({1, 2});
  REQUIRE(rig.settle());
  for (const std::int64_t row : {2, 5}) rig.memory->forget(0, row);
  REQUIRE(rig.shipper.drain(1h));  // rows are audited only on request
  CHECK(rig.trainer.dirty().empty());
  REQUIRE(rig.shipper.drain(1h, true));
  CHECK(rig.trainer.dirty() == std::set<std::int64_t>{2, 5});
  CHECK(rig.shipper.report().missing == 2);
  rig.step({});
  REQUIRE(rig.shipper.drain(1h, true));
  CHECK(rig.shipper.report().missing == 0);
  CHECK(rig.shipper.report().absent_rows == 2);
  CHECK(ship_rows_of(*rig.memory) == rig.trainer.table());
}

TEST_CASE("a sink whose audit reports lost rows gets a snapshot with the next flush") {
  bool lost = false;
  ShipRig rig{[&](const std::string& call) {
    if (call == "audit" && std::exchange(lost, false)) {
      throw SinkError{SinkError::Kind::lost, "a segment was taken away"};
    }
  }};
  rig.step({1});
  REQUIRE(rig.settle());
  lost = true;
  rig.step({2});
  REQUIRE(rig.settle());
  CHECK(rig.trainer.snapshots() == 2);
  CHECK(rig.shipper.report().given_up.empty());
}

TEST_CASE("a sink whose first audit reports lost rows gets a snapshot") {
  int audits = 0;
  ShipRig rig{[&](const std::string& call) {
                if (call == "audit" && audits++ == 0) {
                  throw SinkError{SinkError::Kind::lost, "segment 2 is not there"};
                }
              },
              {},
              gone_lineage(),
              whole_memory()};
  rig.step({2});
  REQUIRE(rig.settle());
  CHECK(rig.trainer.snapshots() == 1);
}

TEST_CASE("a sink whose audit reports a permanent error is given up") {
  bool evicts = false;
  ShipRig rig{[&](const std::string& call) {
    if (call == "audit" && evicts) throw SinkError{SinkError::Kind::wrong, "it drops keys"};
  }};
  rig.step({1});
  REQUIRE(rig.settle());
  evicts = true;
  rig.step({2});
  CHECK_FALSE(rig.shipper.drain(1h));
  CHECK(rig.shipper.report().given_up == "it drops keys");
}

TEST_CASE("a trainer that is overtaken by a later one reports it, and counts no row as delivered") {
  ShipRig rig;
  rig.step({1});
  REQUIRE(rig.settle());
  REQUIRE(rig.shipper.report().rows >= kShipRows);
  rig.memory->write(ship_batch({kShipEpoch + 1, 1}, {}, 1, 1.0F));  // of a later trainer
  rig.step({2});
  rig.step({3});
  CHECK_FALSE(rig.shipper.drain(1h));
  const ShippingReport report = rig.shipper.report();
  CHECK_THAT(report.given_up, ContainsSubstring("a later trainer"));
  CHECK(report.rows == 0);
  CHECK(report.steps == 0);
  CHECK(report.bytes == 0);
  CHECK(report.delivered == Version{});
  CHECK(report.undelivered_steps >= 3);
  CHECK_THAT(rig.shipper.health().given_up, ContainsSubstring("a later trainer"));
}

TEST_CASE("the health of a sink that is down has the error and its duration") {
  std::atomic<bool> down = false;
  ShipRig rig{[&](const std::string& call) {
    if (call == "write" && down) throw SinkError{SinkError::Kind::retry, "connection refused"};
  }};
  rig.step({1});
  REQUIRE(rig.settle());
  CHECK_FALSE(rig.shipper.health().failing);
  CHECK(rig.shipper.health().oldest == 0s);
  down = true;
  rig.step({2});
  rig.machine.executor().spend(30s);
  const ShippingHealth health = rig.shipper.health();
  CHECK(health.failing);
  CHECK(health.error == "connection refused");
  CHECK(health.failing_for > 29s);
  CHECK(health.failing_for <= 30s);
  CHECK(health.oldest > 29s);
  CHECK(health.oldest <= 31s);
  down = false;
  REQUIRE(rig.settle());
  CHECK_FALSE(rig.shipper.health().failing);
  CHECK(rig.shipper.report().lag_most >= 30s);
}

TEST_CASE("the lag of a slow sink does not grow with the size of the queue") {
  // Each step changes 8 of 64 rows. In that time the sink writes half as many rows.
  std::vector<Nanoseconds> lags;
  for (const std::size_t rows : {kShipRows, 100 * kShipRows}) {
    ShipRig* here = nullptr;
    std::size_t writing = 0;
    ShipRig rig{[&](const std::string& call) {
                  if (call == "write") {
                    here->machine.executor().spend(250us * static_cast<int>(writing));
                  }
                },
                {.queue_bytes = rows * record_bytes(1)}};
    here = &rig;
    rig.sink->watch_rows(&writing);
    for (int step = 0; step < 500; ++step) {
      std::set<std::int64_t> changed;
      for (int i = 0; i < 8; ++i) changed.insert((step * 8 + i) % static_cast<int>(kShipRows));
      rig.step(changed);
      rig.machine.executor().spend(1ms);
    }
    REQUIRE(rig.settle());
    CHECK(ship_rows_of(*rig.memory) == rig.trainer.table());
    lags.push_back(rig.shipper.report().lag_p50);
    // All rows take the sink 16 ms. A step waits for one batch and is sent with the next.
    CHECK(rig.shipper.report().lag_most <= 40ms);
  }
  CHECK(lags[0] == lags[1]);
}
