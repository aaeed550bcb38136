#include <vector>

#include "millrace/ordering/race_checker.hpp"
#include "test/ordering/scene.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using Access = RaceChecker::Access;
using Kind = RaceChecker::RaceKind;

TEST_CASE("operations of one stream do not race, and reads do not race with reads") {
  Scene s;
  s.write(s.main, s.batch);
  s.read(s.main, s.batch);
  s.order(s.main, s.copy);
  s.read(s.copy, s.batch);
  s.read(s.main, s.batch);
  CHECK(s.races() == 0);
}

TEST_CASE("the race of a read with a write names both and the missing edge between them") {
  Scene s;
  const auto h2d = s.write(s.copy, s.batch, "h2d");
  const auto gather = s.read(s.main, s.batch, "gather");
  REQUIRE(s.races() == 1);
  CHECK(s.race().kind == Kind::read_after_write);
  CHECK(s.race().first == h2d);
  CHECK(s.race().second == gather);
  CHECK(s.race().message ==
        "h2d (op 1, stream copy) and gather (op 2, stream main) are not ordered: "
        "record on copy after op 1, wait on main before op 2");
}

TEST_CASE("write after read and write after write are races of different kinds") {
  Scene s;
  s.read(s.main, s.batch);
  s.write(s.copy, s.batch);
  s.order(s.main, s.copy);
  s.order(s.copy, s.dist);
  s.write(s.dist, s.output);
  s.write(s.main, s.output);
  REQUIRE(s.races() == 2);
  CHECK(s.checker.races()[0].kind == Kind::write_after_read);
  CHECK(s.checker.races()[1].kind == Kind::write_after_write);
}

TEST_CASE("a race is reported once, however many bytes it has") {
  Scene s;
  const auto first = s.checker.enqueue(s.copy, s.trainer, "scatter");
  for (std::size_t i = 0; i < 64; i += 2) {
    s.checker.access(first, &s.batch.bytes[i], 1, Access::write);
  }
  s.read(s.main, s.batch);
  CHECK(s.races() == 1);
}

TEST_CASE("accesses to neighboring bytes are no race") {
  Scene s;
  const auto low = s.checker.enqueue(s.copy, s.trainer, "low");
  s.checker.access(low, &s.batch.bytes[0], 32, Access::write);
  const auto high = s.checker.enqueue(s.main, s.trainer, "high");
  s.checker.access(high, &s.batch.bytes[32], 32, Access::write);
  CHECK(s.races() == 0);
  s.checker.access(high, &s.batch.bytes[31], 1, Access::read);
  CHECK(s.races() == 1);
}

TEST_CASE("checker: recording an event again keeps the order of earlier waiters") {
  Scene s;
  s.write(s.copy, s.batch);
  s.record(1, s.copy);
  s.wait(s.main, 1);
  s.write(s.copy, s.output);
  s.record(1, s.copy);
  s.read(s.main, s.batch);
  CHECK(s.races() == 0);
  s.read(s.main, s.output);
  CHECK(s.races() == 1);
  s.wait(s.dist, 1);
  s.read(s.dist, s.output);
  CHECK(s.races() == 1);
}

TEST_CASE("checker: waiting on an event that was never recorded, or is forgotten, orders nothing") {
  Scene s;
  s.write(s.copy, s.batch);
  s.wait(s.main, 1);
  s.read(s.main, s.batch);
  CHECK(s.races() == 1);
  s.record(1, s.copy);
  s.checker.forget_event(Scene::key(1));
  s.wait(s.dist, 1);
  s.read(s.dist, s.batch);
  CHECK(s.races() == 2);
}

TEST_CASE("checker: a record that a capture refused leaves the event unchanged") {
  Scene s;
  s.write(s.copy, s.batch);
  s.record(1, s.copy);
  s.write(s.copy, s.output);  // then a record of event 1 fails, as copy is captured
  s.wait(s.main, 1);
  s.read(s.main, s.batch);
  CHECK(s.races() == 0);
  s.read(s.main, s.output);
  CHECK(s.races() == 1);
}

TEST_CASE("checker: a third stream follows what the second had waited for") {
  Scene s;
  s.write(s.copy, s.batch);
  s.order(s.copy, s.dist);
  s.order(s.dist, s.main);
  s.write(s.main, s.batch);
  CHECK(s.races() == 0);
}

TEST_CASE("half of a split block given to a third stream races with the first, not the second") {
  // `dist` gets half of copy's block after it waited for `copy`. `main` gets the other half, but it
  // has waited only for earlier work of `dist`.
  Scene s;
  s.allocate(s.batch, s.copy);
  const auto h2d = s.write(s.copy, s.batch, "h2d");
  s.free(s.batch);
  s.order(s.dist, s.main);
  s.order(s.copy, s.dist);
  s.checker.allocated(&s.batch.bytes[0], 32, s.dist, s.trainer);
  CHECK(s.races() == 0);
  s.checker.allocated(&s.batch.bytes[32], 32, s.main, s.trainer);
  REQUIRE(s.races() == 1);
  CHECK(s.race().kind == Kind::early_reuse);
  CHECK(s.race().first == h2d);
  CHECK_THAT(s.race().message,
             ContainsSubstring("h2d (op 2, stream copy) is not before allocate") &&
                 ContainsSubstring("gives its memory to stream main: record on copy after op 2, "
                                   "wait on main before op 5"));
}

TEST_CASE("checker: the legacy stream joins blocking streams and is joined by them") {
  RaceChecker checker;
  const auto thread = checker.add_thread("host");
  const auto legacy = checker.add_stream("legacy", true, true);
  const auto a = checker.add_stream("a"), b = checker.add_stream("b");
  const auto free_running = checker.add_stream("free-running", false);
  int x = 0, y = 0;
  checker.access(checker.enqueue(a, thread, "write"), &x, sizeof x, Access::write);
  checker.access(checker.enqueue(free_running, thread, "write"), &y, sizeof y, Access::write);
  static_cast<void>(checker.enqueue(legacy, thread, "step"));
  checker.access(checker.enqueue(b, thread, "read"), &x, sizeof x, Access::read);
  CHECK(checker.races().empty());
  checker.access(checker.enqueue(legacy, thread, "read"), &y, sizeof y, Access::read);
  CHECK(checker.races().size() == 1);
  CHECK_THROWS_AS(checker.add_stream("another", true, true), std::invalid_argument);
}

TEST_CASE("checker: the legacy streams of two devices are not ordered") {
  RaceChecker checker;
  const auto thread = checker.add_thread("host");
  const auto here = checker.add_stream("here");
  const auto legacy_there = checker.add_stream("legacy", true, true, 1);
  int x = 0;
  checker.access(checker.enqueue(here, thread, "write"), &x, sizeof x, Access::write);
  checker.device_synchronized(thread, 1);
  checker.access(checker.enqueue(legacy_there, thread, "read"), &x, sizeof x, Access::read);
  CHECK(checker.races().size() == 1);
}

TEST_CASE("checker: per-thread default streams are ordered by the legacy stream only") {
  RaceChecker checker;
  const auto one = checker.add_thread("one"), two = checker.add_thread("two");
  const auto legacy = checker.add_stream("legacy", true, true);
  const auto of_one = checker.add_stream("per-thread of one");
  const auto of_two = checker.add_stream("per-thread of two");
  int x = 0;
  checker.access(checker.enqueue(of_one, one, "write"), &x, sizeof x, Access::write);
  checker.access(checker.enqueue(of_two, two, "read"), &x, sizeof x, Access::read);
  CHECK(checker.races().size() == 1);
  checker.access(checker.enqueue(legacy, two, "write"), &x, sizeof x, Access::write);
  checker.access(checker.enqueue(of_one, one, "read"), &x, sizeof x, Access::read);
  CHECK(checker.races().size() == 1);
}

TEST_CASE("checker: synchronizing an idle blocking stream does not complete legacy work") {
  RaceChecker checker;
  const auto thread = checker.add_thread("host"), other = checker.add_thread("other");
  const auto legacy = checker.add_stream("legacy", true, true), blocking = checker.add_stream("b");
  int x = 0;
  checker.access(checker.enqueue(legacy, other, "write"), &x, sizeof x, Access::write);
  checker.stream_synchronized(blocking, thread);
  checker.access(checker.host_operation(thread, "look"), &x, sizeof x, Access::read);
  CHECK(checker.races().size() == 1);
}

TEST_CASE("checker: a stream in the place of a destroyed stream is not ordered after it") {
  Scene s;
  s.write(s.copy, s.batch);
  s.checker.remove_stream(s.copy);
  const auto successor = s.checker.add_stream("copy", false);
  s.read(successor, s.batch);
  CHECK(s.races() == 1);
  CHECK_THROWS_AS(s.read(s.copy, s.batch), std::invalid_argument);
}

TEST_CASE("checker: synchronizing the device waits for destroyed streams as well") {
  Scene s;
  s.write(s.copy, s.batch);
  s.checker.remove_stream(s.copy);
  s.checker.device_synchronized(s.trainer);
  s.host_read(s.trainer, s.batch);
  CHECK(s.races() == 0);
}

TEST_CASE("a kernel that spins is ordered only with its own stream") {
  Scene s;
  const auto collective = s.checker.enqueue(s.dist, s.trainer, "all_to_all (spins)");
  s.checker.access(collective, &s.output, sizeof s.output, Access::write);
  s.read(s.main, s.batch);
  s.read(s.main, s.output);
  CHECK(s.races() == 1);
}

TEST_CASE("checker: a wrong actor is refused") {
  Scene s;
  CHECK_THROWS_AS(s.checker.enqueue(s.trainer, s.trainer, ""), std::invalid_argument);
  CHECK_THROWS_AS(s.checker.enqueue(s.main, s.copy, ""), std::invalid_argument);
  CHECK_THROWS_AS(s.checker.enqueue(77, s.trainer, ""), std::invalid_argument);
  CHECK_THROWS_AS(s.checker.end_callback(s.trainer), std::invalid_argument);
  CHECK_THROWS_AS(s.checker.access(77, &s.batch, 1, Access::read), std::invalid_argument);
  CHECK_THROWS_AS(s.checker.freed(&s.batch, s.trainer), std::invalid_argument);
  s.allocate(s.batch, s.main);
  CHECK_THROWS_AS(s.allocate(s.batch, s.main), std::invalid_argument);
}

}  // namespace
}  // namespace millrace::test
