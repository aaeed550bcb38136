#include "capture/dirty_protocol.hpp"

#include <deque>
#include <random>
#include <set>

#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::capture;

namespace {

constexpr std::size_t kRows = 40'000;

/// A device that executes enqueued work late. A gather takes at most four bits, and headers arrive
/// in order.
class Program {
 public:
  explicit Program(std::uint64_t seed) : random_(seed) {}

  void run() {
    for (int i = 0; i < 400; ++i) {
      switch (random_() % 5) {
        case 0:
          request();
          break;
        case 1:
          apply();
          break;
        case 2:
          gather();
          break;
        default:
          deliver();
      }
      check();
    }
    while (protocol_.maybe_dirty()) {
      apply();
      gather();
      while (!enqueued_.empty()) deliver();
      check();
    }
    CHECK(bits_.empty());
    CHECK(wanted_.empty());  // all rows were delivered
    CHECK(protocol_.missing(protocol_.point()) == 0);
  }

 private:
  struct Gather {
    std::uint64_t sequence;
    DirtyPoint point;
    std::set<std::uint64_t> rows;  ///< the rows that it took
    std::uint64_t left;            ///< bits that are left after it
  };

  void request() {
    std::vector<std::uint64_t> ids;
    for (int i = 0; i < 3; ++i) ids.push_back(random_() % kRows);
    CHECK(protocol_.request(ids) == ++requests_);
    wanted_.insert(ids.begin(), ids.end());
  }
  void apply() {
    const PendingRows pending = protocol_.take_pending();
    CHECK((pending.empty() || protocol_.maybe_dirty()));
    if (random_() % 4 == 0) return protocol_.put_back(pending);
    bits_.insert(pending.rows.begin(), pending.rows.end());
    if (!pending.empty()) protocol_.marked(pending.rows.size());
    protocol_.applied(pending);
  }
  void gather() {
    Gather next{protocol_.gathered(), protocol_.point(), {}, 0};
    for (int i = 0; i < 4 && !bits_.empty(); ++i) {
      next.rows.insert(bits_.extract(bits_.begin()).value());
    }
    next.left = bits_.size();
    enqueued_.push_back(std::move(next));
  }
  void deliver() {
    if (enqueued_.empty()) return;
    const Gather next = std::move(enqueued_.front());
    enqueued_.pop_front();
    protocol_.header_came(next.sequence, next.left, next.point);
    const std::uint64_t missing = protocol_.missing(next.point, next.left);
    CHECK(missing >= next.left);
    if (random_() % 4 != 0) {
      for (const std::uint64_t row : next.rows) wanted_.erase(row);
      return;
    }
    const std::vector<std::uint64_t> ids(next.rows.begin(), next.rows.end());
    CHECK(protocol_.return_ids({}, ids));
  }
  void check() {
    CHECK(protocol_.holds());
    if (!protocol_.maybe_dirty()) CHECK(bits_.empty());
  }

  std::mt19937_64 random_;
  DirtyProtocol protocol_{kRows};
  std::set<std::uint64_t> bits_, wanted_;
  std::deque<Gather> enqueued_;
  std::uint64_t requests_ = 0;
};

}  // namespace

TEST_CASE("the host never takes a bitmap with set bits for empty") {
  for (std::uint64_t i = 0; i < 100; ++i) {
    INFO("program " << 1000 * test::seed() + i);
    Program{1000 * test::seed() + i}.run();
  }
}

TEST_CASE("marked rows are missing until a gather leaves none") {
  DirtyProtocol protocol{100};
  CHECK_FALSE(protocol.maybe_dirty());
  const std::vector<std::uint64_t> ids{3, 5};
  CHECK(protocol.request(ids) == 1);
  CHECK(protocol.point().requests == 0);
  const PendingRows pending = protocol.take_pending();
  protocol.marked(2);
  protocol.applied(pending);
  CHECK(protocol.point().requests == 1);
  CHECK(protocol.missing(protocol.point()) == 2);
  const std::uint64_t first = protocol.gathered();
  const DirtyPoint point = protocol.point();
  protocol.header_came(first, 1, point);
  CHECK(protocol.missing(point, 1) == 1);
  CHECK(protocol.maybe_dirty());
  const std::uint64_t second = protocol.gathered();
  protocol.header_came(second, 0, protocol.point());
  CHECK_FALSE(protocol.maybe_dirty());
  CHECK(protocol.missing(protocol.point()) == 0);
}

TEST_CASE("rows marked after a gather stay dirty when its header reports none left") {
  DirtyProtocol protocol{100};
  const std::uint64_t gather = protocol.gathered();
  const DirtyPoint before = protocol.point();
  protocol.marked(7);
  protocol.header_came(gather, 0, before);
  CHECK(protocol.maybe_dirty());
  CHECK(protocol.missing_now() == 7);
}

TEST_CASE("a lost header leaves rows dirty, and returned rows are missing until they are marked") {
  DirtyProtocol protocol{10};
  protocol.header_lost(protocol.gathered());
  CHECK(protocol.maybe_dirty());
  protocol.returned(4);
  CHECK(protocol.missing(DirtyPoint{}) == 4);
  protocol.marked(4);
  protocol.marked_returned(4);
  CHECK(protocol.missing(protocol.point()) == 4);
  protocol.return_all();
  CHECK(protocol.missing(protocol.point()) == 10);  // at most the number of rows
  CHECK(protocol.holds());
}

TEST_CASE("requests for more than a quarter of many rows become a request for all") {
  DirtyProtocol protocol{kRows};
  const std::vector<std::uint64_t> ids(kRows / 4 + 1, 3);
  CHECK(protocol.request({}) == 0);
  CHECK(protocol.request(ids) == 1);
  CHECK(protocol.take_pending().all);
  CHECK(DirtyProtocol{0}.request_all() == 0);
}
