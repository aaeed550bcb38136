#include "ship/ship_queue.hpp"

#include <map>
#include <random>
#include <set>

#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;

namespace {

Shipment shipment(std::uint64_t step, const std::set<std::int64_t>& rows, Nanoseconds at) {
  Shipment made{.recaptures = step, .captured = at};
  made.batch.commit = {.version = {1, step}, .after = {1, step - 1}, .step = step, .missing = step};
  for (const std::int64_t row : rows) {
    const float value = static_cast<float>(step);
    made.batch.add({.version = {1, step}, .row = row, .weights = {&value, 1}});
  }
  return made;
}

}  // namespace

TEST_CASE("a queue has each row once, with its newest value, and stays within its room") {
  std::mt19937_64 random{test::seed()};
  for (const std::size_t room : {std::size_t{1} << 30U, 40 * record_bytes(1)}) {
    ship::ShipQueue queue{room};
    std::map<std::int64_t, std::uint64_t> newest;
    std::uint64_t delivered = 0, left_out = 0;
    for (std::uint64_t step = 1; step <= 100; ++step) {
      std::set<std::int64_t> rows;
      for (int i = 0; i < 20; ++i) rows.insert(static_cast<std::int64_t>(random() % 100));
      const StepBatch no_room = queue.push(shipment(step, rows, Nanoseconds{step}));
      delivered += rows.size();
      left_out += no_room.size();
      for (std::size_t i = 0; i < no_room.size(); ++i) {
        CHECK_FALSE(newest.contains(no_room.row(i).row));  // replacing a queued row needs no room
        rows.erase(no_room.row(i).row);
      }
      for (const std::int64_t row : rows) newest[row] = step;
      CHECK(queue.rows() == newest.size());
      CHECK(queue.bytes() <= room);
    }
    CHECK((left_out > 0) == (room < 100 * record_bytes(1)));
    CHECK(queue.coalesced_rows() == delivered - left_out - newest.size());
    CHECK(queue.oldest() == Nanoseconds{1});
    const auto all = queue.pop();
    REQUIRE(all);
    CHECK(queue.empty());
    CHECK(all->captured.steps() == 100);
    CHECK(all->shipment.recaptures == 100);
    CHECK(all->shipment.batch.commit == StepCommit{.version = {1, 100},
                                                   .after = {1, 0},
                                                   .step = 100,
                                                   .rows = newest.size(),
                                                   .missing = 100});
    REQUIRE(all->shipment.batch.size() == newest.size());
    for (std::size_t i = 0; i < newest.size(); ++i) {
      const RowRecord row = all->shipment.batch.row(i);
      CHECK(row.version.step == newest.at(row.row));
      CHECK(row.weights[0] == static_cast<float>(newest.at(row.row)));
    }
  }
}

TEST_CASE("an empty queue takes a step that is larger than its room") {
  ship::ShipQueue queue{1};
  const Shipment one = shipment(3, {1, 2, 3}, Nanoseconds{7});
  CHECK(queue.fits(one.batch));
  CHECK(queue.push(one).empty());
  CHECK_FALSE(queue.fits(one.batch));
  CHECK(queue.push(shipment(4, {2, 3, 4}, Nanoseconds{8})).size() == 1);  // row 4
  const auto popped = queue.pop();
  REQUIRE(popped);
  CHECK(popped->shipment.batch.size() == 3);
  CHECK(popped->shipment.captured == Nanoseconds{7});
  CHECK_FALSE(queue.pop());
}
