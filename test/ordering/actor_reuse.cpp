// The checker reuses the numbers of removed actors. The order known for the old actor must not
// apply to the new one.

#include <algorithm>

#include "test/ordering/scene.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

using Access = RaceChecker::Access;

void write(Scene& s, RaceChecker::Actor stream, const Scene::Block& block) {
  s.checker.access(s.checker.enqueue(stream, s.loader, "write"), &block, 1, Access::write);
}

TEST_CASE("order after a removed stream or callback does not hold for its reused number") {
  Scene s;
  const auto callback = s.checker.begin_callback(s.copy, s.trainer, "done");
  s.checker.end_callback(callback);
  for (int i = 0; i < 5; ++i) static_cast<void>(s.checker.enqueue(s.copy, s.trainer, "work"));
  s.order(s.copy, s.dist);
  s.checker.remove_stream(s.copy);
  s.checker.forget_dominated();
  const auto one = s.checker.add_stream("one", false), two = s.checker.add_stream("two", false);
  REQUIRE(std::minmax(one, two) == std::minmax(s.copy, callback));

  write(s, one, s.batch);
  write(s, two, s.output);
  s.read(s.dist, s.batch);
  s.read(s.dist, s.output);
  CHECK(s.races() == 2);
}

TEST_CASE("a removed stream keeps its number while its accesses may still race") {
  Scene s;
  s.write(s.copy, s.batch);
  s.checker.remove_stream(s.copy);
  s.checker.forget_dominated();
  CHECK(s.checker.add_stream("successor", false) != s.copy);
}

TEST_CASE("a callback keeps its number while its enqueued work may race with a free") {
  Scene s;
  s.allocate(s.batch, s.main);
  const auto callback = s.checker.begin_callback(s.copy, s.trainer, "more");
  s.checker.access(s.checker.enqueue(s.main, callback, "use"), &s.batch, 1, Access::read);
  s.checker.end_callback(callback);
  s.checker.remove_stream(s.copy);
  s.checker.forget_dominated();
  for (int i = 0; i < 3; ++i) {
    const auto other = s.checker.add_stream("other", false);
    static_cast<void>(s.checker.enqueue(other, s.loader, "work"));
    s.checker.stream_synchronized(other, s.loader);
  }
  s.checker.freed(&s.batch, s.loader);
  CHECK(s.races() == 1);
}

TEST_CASE("a removed stream keeps its number until its last callback has run") {
  Scene s;
  const auto callback = s.checker.begin_callback(s.copy, s.trainer, "last");
  s.checker.remove_stream(s.copy);
  s.checker.forget_dominated();
  const auto successor = s.checker.add_stream("successor", false);
  s.host_write(callback, s.batch);
  s.checker.end_callback(callback);
  write(s, successor, s.batch);
  CHECK(s.races() == 1);
}

}  // namespace
}  // namespace millrace::test
