#include "memory/few.hpp"

#include <map>
#include <random>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

using Model = std::map<StreamId, Marker>;

std::vector<Point> points_of(const Model& model) {
  std::vector<Point> points;
  for (const auto& [stream, marker] : model) points.push_back({stream, marker});
  return points;
}

std::vector<Point> points_of(const PointSet& set) { return {set.begin(), set.end()}; }

}  // namespace

TEST_CASE("a set of points has the latest point of each stream, in the order of streams",
          "[parts]") {
  std::mt19937_64 random{seed()};
  for (int round = 0; round < 200; ++round) {
    std::vector<PointSet> sets(3);
    std::vector<Model> models(3);
    for (int step = 0; step < 100; ++step) {
      const auto which = random() % 3, other = random() % 3;
      PointSet& set = sets[which];
      Model& model = models[which];
      const auto streams = static_cast<std::uint32_t>(1 + random() % 12);
      // From the highest slot on: a set gives its ids of no stream a meaning.
      const Point point{{~std::uint32_t{0} - static_cast<std::uint32_t>(random() % streams), 1},
                        random() % 20};
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
          set.join(point);
          model[point.stream] = std::max(model[point.stream], point.marker);
          break;
        case 3:
          set.erase_if([&](const Point p) { return p.marker < point.marker; });
          std::erase_if(model, [&](const auto& p) { return p.second < point.marker; });
          break;
        case 4:
          set.assign(sets[other]);
          model = models[other];
          break;
        case 7:
          set.swap(sets[other]);
          std::swap(model, models[other]);
          break;
        case 6:
          set.set(point);
          model = {{point.stream, point.marker}};
          break;
        case 5:
          if (which == other) break;
          set = std::move(sets[other]);
          model = models[other];
          sets[other].clear();
          models[other].clear();
          break;
      }
      REQUIRE(points_of(set) == points_of(model));
      CHECK(set.size() == model.size());
      CHECK(set.on(point.stream) == (model.contains(point.stream) ? model[point.stream] : 0));
    }
  }
}

}  // namespace millrace::test
