#include "memory/stream_uses.hpp"

#include <algorithm>
#include <bit>
#include <random>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/seed.hpp"
#include "test/support/steps.hpp"

namespace millrace::test {
namespace {

std::vector<StreamId> ids_of_uses(const StreamUses& uses) {
  std::vector<StreamId> result;
  for (const StreamRef use : uses) result.push_back(use.id());
  return result;
}

/// A reference like that of an attached stream. Attaching 100,000 streams would take too long.
StreamRef nth_stream(std::uint32_t slot) {
  struct Parts {
    StreamHandle handle;
    StreamId id;
  };
  return std::bit_cast<StreamRef>(Parts{StreamHandle{}, StreamId{slot, 1}});
}

/// Largest number of steps of one call while n streams are added in falling order of their ids.
std::uint64_t most_steps_of_a_use(std::uint32_t n) {
  StreamUses uses;
  std::uint64_t most = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const StreamRef stream = nth_stream(n - i);
    most = std::max(most, steps([&] { uses.add(stream); }));
    most = std::max(most, steps([&] { uses.add(stream); }));
    if (i % 3 == 0) most = std::max(most, steps([&] { uses.remove(stream.id()); }));
  }
  return most;
}

}  // namespace

TEST_CASE("each stream that uses a block is listed once", "[parts]") {
  CAPTURE(seed());
  std::mt19937_64 random{seed()};
  for (int round = 0; round < 100; ++round) {
    const auto streams = static_cast<std::uint32_t>(1 + random() % 40);
    StreamUses uses;
    std::vector<StreamId> model;
    for (int step = 0; step < 100; ++step) {
      const StreamRef stream = nth_stream(static_cast<std::uint32_t>(random() % streams));
      const auto known = std::ranges::find(model, stream.id());
      const auto what = random() % 40;
      if (what == 0) {
        uses.clear();
        model.clear();
      } else if (what < 10) {
        uses.remove(stream.id());
        if (known != model.end()) model.erase(known);
      } else {
        CHECK(uses.add(stream) == (known == model.end()));
        if (known == model.end()) model.push_back(stream.id());
      }
      std::vector<StreamId> present = ids_of_uses(uses);
      CHECK(uses.size() == model.size());
      CHECK(uses.empty() == model.empty());
      CHECK(std::ranges::is_permutation(present, model));
      if (what >= 10 && !model.empty() && known == model.end()) {
        CHECK(present.back() == model.back());
      }
    }
  }
}

TEST_CASE("streams that use a block are listed in the order of recording", "[parts]") {
  StreamUses uses;
  std::vector<StreamId> order;
  for (std::uint32_t i = 0; i < 100; ++i) {
    const StreamRef stream = nth_stream(i * 37 % 100);
    uses.add(stream);
    uses.add(stream);
    order.push_back(stream.id());
  }
  CHECK(ids_of_uses(uses) == order);
}

TEST_CASE("a stream that uses a block costs the same however many use it", "[parts]") {
  CHECK(most_steps_of_a_use(1'000) <= 20);
  CHECK(most_steps_of_a_use(100'000) <= 20);
}

TEST_CASE("joining the points of many streams that used a block costs a constant per stream",
          "[parts]") {
  for (const std::uint32_t n : {1'000U, 100'000U}) {
    std::vector<Point> points;
    for (std::uint32_t i = 0; i < n; ++i) points.push_back({StreamId{n - i, 1}, 1});
    PointSet set{Point{StreamId{n / 2, 1}, 5}};
    CHECK(steps([&] { set.join_all(points); }) <= 4 * n);
    CHECK(set.size() == n);
    CHECK(set.on(StreamId{n / 2, 1}) == 5);
    CHECK(std::ranges::is_sorted(set, {}, &Point::stream));
  }
}

}  // namespace millrace::test
