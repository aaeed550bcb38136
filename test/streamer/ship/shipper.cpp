#include "millrace/streamer/shipper.hpp"

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "millrace/device/thread_executor.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "test/streamer/ship/ship_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Kind = SinkError::Kind;

namespace {

constexpr std::uint64_t kRows = test::kShipRows;
constexpr std::uint64_t kEpoch = test::kShipEpoch;

using Rig = test::ShipRig;
using Trainer = test::ShippedTable;
using test::ship_batch;

std::map<std::int64_t, float> rows_of(Sink& sink) { return test::ship_rows_of(sink); }
StreamBeginning beginning(Lineage lineage = {}) { return test::ship_beginning(std::move(lineage)); }

/// Ships one step to a sink whose first eight writes fail with the same error.
struct FailingWrites {
  explicit FailingWrites(const SinkError& error)
      : rig{[this, error](const std::string& call) {
              if (call != "write" || at.size() == 8) return;
              at.push_back(rig.machine.now());
              throw error;
            },
            {.first_retry = 100ms, .longest_retry = 1s}} {
    rig.step({1});
    REQUIRE(rig.settle());
    REQUIRE(at.size() == 8);
  }

  std::vector<Nanoseconds> at;  ///< times of the failed writes
  Rig rig;
};

}  // namespace

TEST_CASE("a sink gets a snapshot first and then every offered row") {
  Rig rig;
  rig.step({1, 2});
  rig.step({2, 3});
  REQUIRE(rig.settle());
  CHECK(rows_of(*rig.memory) == rig.trainer.table());
  const SinkState state = rig.memory->state();
  CHECK(state.committed_by_all() == rig.shipper.report().delivered);
  CHECK(state.missing() == 0);
  CHECK(rig.trainer.snapshots() == 1);
  CHECK(rig.shipper.report().undelivered_steps == 0);
}

TEST_CASE("calls that fail are repeated after pauses that double up to the maximum") {
  FailingWrites failing{SinkError{Kind::retry, "it is down"}};
  auto& [at, rig] = failing;
  Nanoseconds longest = 100ms;
  for (std::size_t i = 1; i < at.size(); ++i, longest = std::min<Nanoseconds>(2 * longest, 1s)) {
    CHECK(at[i] - at[i - 1] >= longest / 2);
    CHECK(at[i] - at[i - 1] <= longest + 11ms);  // a pause is checked every 10 ms
  }
  CHECK(rig.shipper.report().retries == 8);
  CHECK(rig.shipper.report().last_error == "it is down");
  CHECK(rows_of(*rig.memory) == rig.trainer.table());
}

TEST_CASE("a sink that reports lost commits repeatedly is retried after growing pauses") {
  FailingWrites failing{SinkError{Kind::lost, "it has nothing"}};
  auto& [at, rig] = failing;
  Nanoseconds shortest = 50ms;
  for (std::size_t i = 1; i < at.size();
       ++i, shortest = std::min<Nanoseconds>(2 * shortest, 500ms)) {
    CHECK(at[i] - at[i - 1] >= shortest);
  }
  CHECK(rows_of(*rig.memory) == rig.trainer.table());
}

TEST_CASE("ranks that no longer exist cause no snapshot") {
  struct There {
    std::uint64_t epoch_of_rank_1;
    std::uint32_t ranks;
    std::size_t snapshots;
  };
  // Rank 1 wrote only in an earlier epoch, or in the epoch of rank 0, or rank 0 counts two ranks.
  for (const There& what : {There{4, 1, 0}, There{5, 1, 1}, There{4, 2, 1}}) {
    auto memory = std::make_shared<MemorySink>();
    memory->begin(beginning().schema);
    for (const std::uint32_t rank : {0U, 1U}) {
      StepBatch last = ship_batch({rank == 0 ? 5 : what.epoch_of_rank_1, 10}, {}, rank, 1.0F);
      last.commit.rank = rank;
      last.commit.ranks = rank == 0 ? what.ranks : 2;
      memory->write(last);
    }
    Lineage lineage;
    lineage.extend({4, 10});
    lineage.extend({5, 10});
    Rig rig{{}, {}, lineage, memory};
    REQUIRE(rig.shipper.drain(1h));
    CHECK(rig.trainer.snapshots() == what.snapshots);
  }
}

TEST_CASE("a write that took effect and then failed is repeated without harm") {
  int failures = 3;
  Rig rig{[&](const std::string& call) {
    if (call == "written" && failures-- > 0) throw SinkError{Kind::retry, "no answer"};
  }};
  rig.step({1, 5});
  rig.step({5});
  REQUIRE(rig.settle());
  CHECK(rows_of(*rig.memory) == rig.trainer.table());
}

TEST_CASE("a sink that has lost its commits gets a snapshot, and rows are missing until then") {
  auto memory = std::make_shared<MemorySink>();
  std::vector<std::uint64_t> missing;
  bool lose = false;
  Rig rig{[&](const std::string& call) {
            if (call == "write" && std::exchange(lose, false)) {
              throw SinkError{Kind::lost, "of rank 0 it has nothing"};
            }
            if (call == "written") missing.push_back(memory->state().missing());
          },
          {},
          {},
          memory};
  rig.step({1});
  REQUIRE(rig.settle());
  lose = true;
  missing.clear();
  rig.step({2});
  REQUIRE(rig.settle());
  CHECK(missing.front() >= kRows);
  CHECK(missing.back() == 0);
  CHECK(rig.shipper.report().snapshots == 2);
  CHECK(rows_of(*memory) == rig.trainer.table());
}

TEST_CASE("a request for a snapshot is answered once, and the commits carry its number") {
  Rig rig;
  rig.step({1});
  REQUIRE(rig.settle());
  CHECK(rig.memory->state().commits.at(0).answers == 0);
  rig.sink->request_snapshot();
  rig.step({2});
  REQUIRE(rig.settle());
  CHECK(rig.shipper.report().snapshots == 2);
  CHECK(rig.memory->state().commits.at(0).answers == 1);
  rig.step({3});
  REQUIRE(rig.settle());
  CHECK(rig.shipper.report().snapshots == 2);
}

TEST_CASE("a request of any number is answered once, and never hides a later request") {
  Rig rig;
  rig.step({1});
  REQUIRE(rig.settle());
  std::uint64_t snapshots = rig.shipper.report().snapshots;
  for (const std::uint64_t number : {~0ULL, 1'764'000'000'000ULL, ~0ULL - 1, 1ULL}) {
    rig.sink->request_snapshot(number);
    for (int i = 0; i < 3; ++i) {
      rig.step({2});
      REQUIRE(rig.settle());
    }
    CHECK(rig.shipper.report().snapshots == ++snapshots);
    CHECK(rig.memory->state().commits.at(0).answers == number);
  }
  rig.sink->request_snapshot(0);  // the sink was emptied
  rig.step({3});
  REQUIRE(rig.settle());
  CHECK(rig.shipper.report().snapshots == snapshots);
}

TEST_CASE("the first snapshot answers a request that was made before it") {
  Rig rig;
  rig.sink->request_snapshot(7);
  rig.step({1});
  REQUIRE(rig.settle());
  rig.step({2});
  REQUIRE(rig.settle());
  CHECK(rig.shipper.report().snapshots == 1);
}

TEST_CASE("a request made between two runs is answered by the next run") {
  auto memory = std::make_shared<MemorySink>();
  memory->begin(beginning().schema);
  StepBatch last = ship_batch({3, 10}, {}, 1, 1.0F);
  last.commit.answers = 4;
  memory->write(last);
  Lineage lineage;
  lineage.extend({3, 10});
  for (const std::uint64_t asked : {4U, 5U}) {
    Trainer trainer;
    VirtualMachine machine;
    auto sink = std::make_shared<test::FaultySink>(memory, [](const std::string&) {});
    for (std::uint64_t i = 0; i < asked; ++i) sink->request_snapshot();
    Shipper shipper{sink, machine.executor(), trainer, beginning(lineage)};
    REQUIRE(shipper.drain(1h));
    CHECK(trainer.snapshots() == (asked == 5 ? 1 : 0));
  }
}

TEST_CASE("rows newer than the checkpoint are marked in parts while the sink is read") {
  struct Counting final : Recapture {
    std::uint64_t recapture(const StepBatch& rows) override {
      all += rows.size();
      most = std::max(most, rows.size());
      return ++calls;
    }
    std::uint64_t recapture_all() override { return ++calls; }
    [[nodiscard]] std::uint64_t all_rows() const override { return 20'000; }
    std::size_t all = 0, most = 0, calls = 0;
  };
  StreamBeginning begun = beginning();
  begun.schema.tables[0].rows = 20'000;
  begun.lineage.extend({3, 10});
  auto memory = std::make_shared<MemorySink>();
  memory->begin(begun.schema);
  StepBatch last;
  last.commit = {.version = {3, 12}, .step = 12};
  const float value = 1;
  for (std::int64_t row = 0; row < 20'000; ++row) {
    last.add({.version = {3, row < 15'000 ? 12U : 9U}, .row = row, .weights = {&value, 1}});
  }
  memory->write(last);
  Counting counting;
  VirtualMachine machine;
  Shipper shipper{memory, machine.executor(), counting, begun};
  REQUIRE(shipper.drain(1h));
  CHECK(counting.all == 15'000);
  CHECK(counting.most <= 5'000);
  CHECK(shipper.report().snapshots == 0);
}

TEST_CASE("a sink with a permanent error is given up, and training continues") {
  Rig rig{[](const std::string& call) {
    if (call == "begin") throw SinkError{Kind::wrong, "it has other tables"};
  }};
  rig.step({1});
  CHECK_FALSE(rig.shipper.drain(1h));
  rig.step({2});
  const ShippingReport report = rig.shipper.report();
  CHECK_THAT(report.given_up, ContainsSubstring("other tables"));
  CHECK(report.undelivered_steps == 2);
  CHECK(report.undelivered_rows >= 2);
}

TEST_CASE("a sink that throws an unexpected exception is given up") {
  Rig rig{[](const std::string& call) {
    if (call == "write") throw std::logic_error{"a mistake"};
  }};
  rig.step({1});
  CHECK_FALSE(rig.shipper.drain(1h));
  CHECK(rig.shipper.report().given_up == "a mistake");
}

TEST_CASE("stop waits at most the given time, and reports the undelivered steps") {
  Rig rig{[](const std::string& call) {
    if (call == "write") throw SinkError{Kind::retry, "it is down"};
  }};
  rig.step({1});
  rig.step({2, 3});
  const Nanoseconds before = rig.machine.now();
  rig.shipper.stop(5s);
  CHECK(rig.machine.now() - before >= 4s);
  CHECK(rig.machine.now() - before <= 6s);
  const ShippingReport report = rig.shipper.report();
  CHECK(report.undelivered_steps == 2);
  CHECK(report.undelivered_rows == 3);
  CHECK_FALSE(report.given_up.empty());
}

TEST_CASE("stop also limits the time of a sink that is slow") {
  Rig* here = nullptr;
  Rig rig{[&](const std::string& call) {
    if (call == "write") here->machine.executor().spend(6s);
  }};
  here = &rig;
  for (int i = 0; i < 20; ++i) {
    rig.step({i});
    rig.machine.executor().spend(1ms);  // the first is in flight, the others wait merged
  }
  const Nanoseconds before = rig.machine.now();
  rig.shipper.stop(5s);
  CHECK(rig.machine.now() - before <= 8s);  // the call in flight is not interrupted
  const ShippingReport report = rig.shipper.report();
  CHECK(report.undelivered_steps >= 15);
  CHECK(report.steps + report.undelivered_steps == 20);
  CHECK_FALSE(report.given_up.empty());
}

TEST_CASE("close ends the waits for room in the queue") {
  Rig rig{[](const std::string& call) {
            if (call == "write") throw SinkError{Kind::retry, "it is down"};
          },
          {.queue_bytes = 1, .when_full = QueuePolicy::block}};
  rig.step({1});
  const auto offering = rig.machine.executor().spawn("offer", [&] {
    for (int i = 2; i < 6; ++i) rig.step({i});
  });
  rig.machine.executor().spend(1s);
  rig.shipper.close(3s);
  offering->join();
  rig.shipper.stop(3s);
  CHECK(rig.shipper.report().undelivered_steps == 5);
}

TEST_CASE("a step that is offered after close is delivered before the deadline") {
  Rig rig;
  rig.step({1});
  REQUIRE(rig.settle());
  rig.shipper.close(10s);
  rig.machine.executor().spend(1s);  // the queue is empty
  rig.step({2});
  rig.shipper.stop(9s);
  const ShippingReport report = rig.shipper.report();
  CHECK(report.undelivered_steps == 0);
  CHECK(report.delivered == report.offered);
  CHECK(rows_of(*rig.memory) == rig.trainer.table());
}

TEST_CASE("a flush that loses written rows is followed by a snapshot") {
  auto memory = std::make_shared<MemorySink>();
  bool fail = false;
  Rig rig{[&](const std::string& call) {
            if (call != "flush" || !std::exchange(fail, false)) return;
            StepBatch back;  // replaces the commit
            back.commit = {.version = {kEpoch, 99}, .step = 99};
            memory->write(back);
            throw SinkError{Kind::retry, "no room on the disk"};
          },
          {},
          {},
          memory};
  rig.step({1});
  REQUIRE(rig.settle());
  fail = true;
  rig.step({2});
  REQUIRE(rig.shipper.drain(1h));
  CHECK(rig.trainer.snapshots() == 2);
}

TEST_CASE("the queue stays within its bytes under every policy, and no row is lost") {
  for (const QueuePolicy policy : {QueuePolicy::coalesce, QueuePolicy::recapture}) {
    CAPTURE(to_string(policy));
    bool down = true;
    const bool merges = policy == QueuePolicy::coalesce;
    const std::size_t room = (merges ? kRows + 6 : 24) * record_bytes(1);
    Rig rig{[&](const std::string& call) {
              if (call == "write" && down) throw SinkError{Kind::retry, "it is down"};
            },
            {.queue_bytes = room, .when_full = policy}};
    std::mt19937_64 random{test::seed()};
    for (int step = 0; step < 60; ++step) {
      std::set<std::int64_t> rows;
      for (int i = 0; i < 6; ++i) rows.insert(static_cast<std::int64_t>(random() % kRows));
      rig.step(rows);
      rig.machine.executor().spend(1ms);
    }
    const ShippingReport full = rig.shipper.report();
    CHECK(full.most_queue_bytes <= room + 60 * sizeof(Shipment) + kRows * record_bytes(1));
    CHECK((full.recaptured_rows > 0) != merges);  // the queue has room for one of each row
    CHECK((full.coalesced_rows > 0) == merges);
    down = false;
    REQUIRE(rig.settle());
    CHECK(rows_of(*rig.memory) == rig.trainer.table());
    CHECK(rig.memory->state().missing() == 0);
  }
}

TEST_CASE("with QueuePolicy::block an offer waits for room") {
  bool down = true;
  Rig rig{[&](const std::string& call) {
            if (call == "write" && down) throw SinkError{Kind::retry, "it is down"};
          },
          {.queue_bytes = 1, .when_full = QueuePolicy::block}};
  const auto repaired = rig.machine.executor().spawn("repair", [&] {
    rig.machine.executor().spend(30s);
    down = false;
  });
  for (int i = 0; i < 5; ++i) rig.step({i});
  CHECK(rig.machine.now() >= 30s);
  repaired->join();
  REQUIRE(rig.settle());
  CHECK(rows_of(*rig.memory) == rig.trainer.table());
  CHECK(rig.shipper.report().recaptured_rows == 0);
}

TEST_CASE("a sink that has the whole checkpoint gets only the rows newer than it") {
  auto memory = std::make_shared<MemorySink>();
  memory->begin(beginning().schema);
  StepBatch all = ship_batch({3, 9}, {}, 1, 1.0F);
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(kRows); ++row) {
    const float zero = 0;
    if (row != 1) all.add({.version = {3, 9}, .row = row, .weights = {&zero, 1}});
  }
  memory->write(all);
  memory->write(ship_batch({3, 10}, {3, 9}, 2, 2.0F));  // the checkpoint's last step
  memory->write(ship_batch({3, 11}, {3, 10}, 3, 3.0F));
  memory->write(ship_batch({3, 12}, {3, 11}, 4, 4.0F));
  Lineage lineage;
  lineage.extend({3, 10});
  Rig rig{{}, {}, lineage, memory};
  rig.trainer.resume_at(10);
  rig.step({});
  REQUIRE(rig.shipper.drain(1h));
  CHECK(rig.trainer.snapshots() == 0);
  CHECK(rig.memory->state().missing() == 2);  // rows 3 and 4, sent with the next step
  CHECK(rig.trainer.dirty() == std::set<std::int64_t>{3, 4});
  REQUIRE(rig.settle());
  CHECK(rows_of(*memory)[3] == 0);
  CHECK(rows_of(*memory)[4] == 0);
  CHECK(rows_of(*memory)[2] == 2.0F);
}

TEST_CASE("a sink that is older than the checkpoint or lacks rows gets a snapshot") {
  const auto missing = GENERATE(0U, 5U);
  auto memory = std::make_shared<MemorySink>();
  memory->begin(beginning().schema);
  StepBatch last = ship_batch({3, missing == 0 ? 9U : 10U}, {}, 1, 1.0F);
  last.commit.missing = missing;
  memory->write(last);
  Lineage lineage;
  lineage.extend({3, 10});
  Rig rig{{}, {}, lineage, memory};
  rig.step({1});
  REQUIRE(rig.settle());
  CHECK(rig.trainer.snapshots() == 1);
}

TEST_CASE("a sink gets a snapshot if its newest steps are of another lineage") {
  // The checkpoint is 4:20, which began at 3:10. The sink's epoch 5 began at 3:10, or at 4:20.
  const bool same = GENERATE(false, true);
  auto memory = std::make_shared<MemorySink>();
  memory->begin(beginning().schema);
  StepBatch last = ship_batch({5, 30}, {}, 1, 1.0F);
  last.commit.base = same ? Version{4, 20} : Version{3, 10};
  memory->write(last);
  Lineage lineage;
  lineage.extend({3, 10});
  lineage.extend({4, 20});
  Rig rig{{}, {}, lineage, memory};
  rig.step({2});
  REQUIRE(rig.settle());
  CHECK(rig.trainer.snapshots() == (same ? 0 : 1));
  CHECK(memory->state().commits.at(0).base == Version{4, 20});
}

TEST_CASE("a sink that a later trainer writes to is given up") {
  auto memory = std::make_shared<MemorySink>();
  memory->begin(beginning().schema);
  memory->write(ship_batch({kEpoch + 1, 1}, {}, 1, 1.0F));
  Rig rig{{}, {}, {}, memory};
  rig.step({1});
  CHECK_FALSE(rig.shipper.drain(1h));
  CHECK_THAT(rig.shipper.report().given_up, ContainsSubstring("a later trainer"));
}

TEST_CASE("after any failures of its calls the sink has the table in the end") {
  for (std::uint64_t seed = test::seed(); seed < test::seed() + 40; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    bool faults = true;
    const std::array policies{QueuePolicy::coalesce, QueuePolicy::recapture, QueuePolicy::block};
    Rig rig{[&](const std::string& call) {
              if (!faults || random() % 3 != 0) return;
              const bool lost = call == "write" && random() % 8 == 0;
              throw SinkError{lost ? Kind::lost : Kind::retry, "the seed says so"};
            },
            {.queue_bytes = (1 + random() % 40) * record_bytes(1),
             .when_full = policies[random() % policies.size()]}};
    for (int step = 0; step < 50; ++step) {
      std::set<std::int64_t> rows;
      for (std::uint64_t i = random() % 8; i > 0; --i) {
        rows.insert(static_cast<std::int64_t>(random() % kRows));
      }
      rig.shipper.offer(rig.trainer.step(rows, rig.machine.now(), 1 + random() % 20),
                        rig.machine.executor());
      rig.machine.executor().spend(std::chrono::milliseconds{random() % 50});
    }
    faults = false;
    for (int i = 0; i < 20; ++i) rig.settle();
    REQUIRE(rig.shipper.report().given_up.empty());
    CHECK(rows_of(*rig.memory) == rig.trainer.table());
    CHECK(rig.memory->state().missing() == 0);
  }
}

TEST_CASE("a shipper also works with real threads") {
  ThreadExecutor executor;
  Trainer trainer;
  auto memory = std::make_shared<MemorySink>();
  std::atomic<int> failures = 20;
  Shipper shipper{std::make_shared<test::FaultySink>(memory,
                                                     [&](const std::string&) {
                                                       if (--failures > 0)
                                                         throw SinkError{Kind::retry, "at first"};
                                                     }),
                  executor,
                  trainer,
                  beginning(),
                  {.first_retry = 1ms, .longest_retry = 2ms}};
  for (int step = 0; step < 200; ++step) {
    shipper.offer(trainer.step({step % 50, step % 7}, executor.now()), executor);
  }
  REQUIRE(shipper.drain(30s));
  shipper.offer(trainer.step({}, executor.now()), executor);
  REQUIRE(shipper.drain(30s));
  CHECK(rows_of(*memory) == trainer.table());
  shipper.stop(1s);
  CHECK(shipper.report().undelivered_steps == 0);
}
