#include "millrace/observe/ordering_history.hpp"
#include "test/support/catch.hpp"

namespace millrace {
namespace {

constexpr StreamId kHistoryMain{1, 1};
constexpr StreamId kHistoryCopy{2, 1};
constexpr StreamId kCopysSuccessor{2, 2};

TEST_CASE("a point is covered from the first frontier that reached it") {
  OrderingHistory history;
  history.stream_saw(kHistoryMain, Frontier{{kHistoryCopy, 3}}, 10);
  history.stream_saw(kHistoryMain, Frontier{{kHistoryCopy, 5}}, 20);

  CHECK(history.ordered_from({kHistoryCopy, 0}, kHistoryMain) == 0);
  CHECK(history.ordered_from({kHistoryCopy, 3}, kHistoryMain) == 10);
  CHECK(history.ordered_from({kHistoryCopy, 4}, kHistoryMain) == 20);
  CHECK(history.ordered_from({kHistoryCopy, 6}, kHistoryMain) == kNever);
  CHECK(history.ordered_from({kHistoryMain, 1}, kHistoryCopy) == kNever);
  CHECK(history.completed_from({kHistoryCopy, 3}) == kNever);
}

TEST_CASE("an entry that a later frontier lacks stays unchanged") {
  OrderingHistory history;
  history.device_finished(Frontier{{kHistoryCopy, 3}}, 10);
  history.device_finished({}, 20);
  history.device_finished(Frontier{{kHistoryCopy, 4}}, 30);
  CHECK(history.completed_from({kHistoryCopy, 2}) == 10);
  CHECK(history.completed_from({kHistoryCopy, 4}) == 30);
}

TEST_CASE("a frontier of a slot's next tenant covers all of the last tenant") {
  OrderingHistory history;
  history.device_finished(Frontier{{kHistoryCopy, 3}}, 10);
  history.device_finished(Frontier{{kCopysSuccessor, 0}}, 20);
  CHECK(history.completed_from({kHistoryCopy, 3}) == 10);
  CHECK(history.completed_from({kHistoryCopy, 100}) == 20);
  CHECK(history.completed_from({kCopysSuccessor, 1}) == kNever);
}

TEST_CASE("a repeated frontier adds no entry") {
  OrderingHistory history;
  for (TracePosition now = 1; now <= 100; ++now) {
    history.stream_saw(kHistoryMain, Frontier{{kHistoryCopy, 3}}, now);
  }
  CHECK(history.size() == 1);
}

TEST_CASE("points of discarded entries stay covered, and later entries are kept") {
  OrderingHistory history;
  for (Marker marker = 1; marker <= 9; ++marker) {
    history.stream_saw(kHistoryMain, Frontier{{kHistoryCopy, marker}}, 10 * marker);
  }
  history.discard_before(55);
  CHECK(history.size() == 5);
  CHECK(history.ordered_from({kHistoryCopy, 2}, kHistoryMain) <= 55);
  CHECK(history.ordered_from({kHistoryCopy, 5}, kHistoryMain) == 50);
  CHECK(history.ordered_from({kHistoryCopy, 6}, kHistoryMain) == 60);
}

}  // namespace
}  // namespace millrace
