#include "millrace/ordering/frontier.hpp"

#include <rapidcheck.h>

#include <vector>

#include "test/support/catch.hpp"

namespace millrace {
namespace {

constexpr StreamId stream(std::uint32_t slot, std::uint32_t generation = 1) {
  return {slot, generation};
}

rc::Gen<Point> any_point() {
  return rc::gen::build<Point>(
      rc::gen::set(&Point::stream,
                   rc::gen::build<StreamId>(
                       rc::gen::set(&StreamId::slot, rc::gen::inRange<std::uint32_t>(0, 5)),
                       rc::gen::set(&StreamId::generation, rc::gen::inRange<std::uint32_t>(1, 3)))),
      rc::gen::set(&Point::marker, rc::gen::inRange<Marker>(1, 6)));
}

Frontier frontier_of(const std::vector<Point>& points) {
  Frontier frontier;
  for (const Point point : points) frontier.advance(point);
  return frontier;
}

std::vector<Point> all_points() {
  std::vector<Point> points;
  for (std::uint32_t slot = 0; slot < 5; ++slot) {
    for (std::uint32_t generation = 1; generation < 3; ++generation) {
      for (Marker marker = 1; marker < 7; ++marker) points.push_back({{slot, generation}, marker});
    }
  }
  return points;
}

TEST_CASE("an empty frontier covers only the time before all work") {
  const Frontier frontier;
  CHECK(frontier.covers({stream(3), 0}));
  CHECK_FALSE(frontier.covers({stream(3), 1}));
}

TEST_CASE("a frontier covers every earlier marker of a stream, and no later one") {
  const Frontier frontier{{stream(2), 5}};
  CHECK(frontier.covers({stream(2), 4}));
  CHECK(frontier.covers({stream(2), 5}));
  CHECK_FALSE(frontier.covers({stream(2), 6}));
  CHECK_FALSE(frontier.covers({stream(1), 1}));
}

TEST_CASE("an older marker does not set a frontier back") {
  Frontier frontier{{stream(2), 5}};
  frontier.advance({stream(2), 3});
  CHECK(frontier.at(stream(2)) == 5);
}

TEST_CASE("a tenant of a slot covers all earlier tenants of the slot and no later one") {
  const Frontier frontier{{stream(2, 3), 1}};
  CHECK(frontier.covers({stream(2, 2), 1000}));
  CHECK_FALSE(frontier.covers({stream(2, 4), 1}));
}

TEST_CASE("a joined frontier covers exactly the points that either frontier covers") {
  CHECK(rc::check([] {
    const auto a = frontier_of(*rc::gen::container<std::vector<Point>>(any_point()));
    const auto b = frontier_of(*rc::gen::container<std::vector<Point>>(any_point()));
    Frontier joined = a;
    joined.join(b);
    for (const Point point : all_points()) {
      RC_ASSERT(joined.covers(point) == (a.covers(point) || b.covers(point)));
    }
  }));
}

TEST_CASE("dropping complete points changes no answer if completion is asked as well") {
  CHECK(rc::check([] {
    const auto a = frontier_of(*rc::gen::container<std::vector<Point>>(any_point()));
    const auto completed = frontier_of(*rc::gen::container<std::vector<Point>>(any_point()));
    Frontier rest = a;
    rest.drop_completed(completed);
    for (const Point kept : rest) RC_ASSERT(!completed.covers(kept));
    for (const Point point : all_points()) {
      RC_ASSERT((rest.covers(point) || completed.covers(point)) ==
                (a.covers(point) || completed.covers(point)));
    }
  }));
}

}  // namespace
}  // namespace millrace
