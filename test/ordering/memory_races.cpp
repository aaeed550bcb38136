#include <vector>

#include "test/ordering/scene.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using Access = RaceChecker::Access;
using Kind = RaceChecker::RaceKind;

TEST_CASE("reuse of a block before its last use is complete or ordered is early reuse") {
  Scene s;
  s.allocate(s.batch, s.main);
  const auto use = s.read(s.main, s.batch, "backward");
  s.free(s.batch);
  s.allocate(s.batch, s.copy);
  REQUIRE(s.races() == 1);
  CHECK(s.race().kind == Kind::early_reuse);
  CHECK(s.race().first == use);
}

TEST_CASE("memory mapped at another address keeps its history, and the address loses its own") {
  Scene s;
  s.write(s.dist, s.output, "before");  // other memory, which no longer exists
  s.allocate(s.batch, s.main);
  const auto use = s.write(s.main, s.batch, "h2d");
  s.free(s.batch);
  s.checker.aliased(&s.output, &s.batch, sizeof(s.output));
  s.allocate(s.output, s.copy);
  REQUIRE(s.races() == 1);
  CHECK(s.race().kind == Kind::early_reuse);
  CHECK(s.race().first == use);
}

TEST_CASE("a stream that freed a block may reuse it at once") {
  Scene s;
  s.allocate(s.batch, s.main);
  s.write(s.main, s.batch);
  s.free(s.batch);
  s.allocate(s.batch, s.main);
  s.write(s.main, s.batch);
  CHECK(s.races() == 0);
}

TEST_CASE("history outlives a free and the next allocation, for streams that use it later") {
  Scene s;
  s.allocate(s.batch, s.main);
  s.write(s.main, s.batch);
  s.free(s.batch);
  s.allocate(s.batch, s.main);
  s.write(s.copy, s.batch, "h2d");
  REQUIRE(s.races() == 1);
  CHECK(s.race().kind == Kind::early_reuse);
}

TEST_CASE("a block freed on another stream may be reused only after its owner's work") {
  const auto reuse = [](bool ordered) {
    Scene s;
    s.allocate(s.batch, s.main);
    s.write(s.main, s.batch);
    if (ordered) s.order(s.main, s.dist);
    s.read(s.dist, s.output);
    s.free(s.batch);  // the free belongs to dist
    s.allocate(s.batch, s.dist);
    return s.races();
  };
  CHECK(reuse(true) == 0);
  CHECK(reuse(false) == 1);
}

TEST_CASE("memory of one stream that another stream uses first is ordered by the first user") {
  Scene s;
  s.allocate(s.batch, s.main);
  s.read(s.main, s.batch);
  s.record(1, s.main);
  s.free(s.batch);
  s.wait(s.copy, 1);
  s.allocate(s.batch, s.copy);
  s.write(s.copy, s.batch);
  s.order(s.copy, s.main);
  s.read(s.main, s.batch);
  CHECK(s.races() == 0);
}

TEST_CASE("an access reported after the free is a use after free") {
  Scene s;
  s.allocate(s.batch, s.main);
  s.free(s.batch);
  s.read(s.main, s.batch, "gather");
  REQUIRE(s.races() == 1);
  CHECK(s.race().kind == Kind::use_after_free);
  CHECK(s.race().message ==
        "gather (op 3, stream main) uses memory that free (op 2, thread trainer) had given back: "
        "free it after op 3");
}

TEST_CASE("a free by a thread that is not synchronized with a use is a use after free") {
  const auto free_elsewhere = [](Scene& s, bool synchronized) {
    s.allocate(s.batch, s.main);
    s.write(s.main, s.batch, "forward");
    s.checker.release(s.trainer, 1);
    if (synchronized) s.checker.acquire(s.loader, 1);
    s.checker.freed(&s.batch, s.loader);
  };
  Scene ordered, unordered;
  free_elsewhere(ordered, true);
  CHECK(ordered.races() == 0);
  free_elsewhere(unordered, false);
  REQUIRE(unordered.races() == 1);
  CHECK(unordered.race().kind == Kind::use_after_free);
  CHECK_THAT(unordered.race().message,
             ContainsSubstring(
                 "synchronize thread loader with thread trainer after op 2 and before op 3"));
}

TEST_CASE("a use by a thread not synchronized with the allocation is a use before allocate") {
  Scene s;
  s.allocate(s.batch, s.main);
  const auto op = s.checker.enqueue(s.copy, s.loader, "stale");
  s.checker.access(op, &s.batch, 1, Access::read);
  REQUIRE(s.races() == 1);
  CHECK(s.race().kind == Kind::use_before_allocate);
  CHECK_THAT(s.race().message, ContainsSubstring("synchronize thread loader with thread trainer"));
}

TEST_CASE("memory that was never reported as an allocation is checked for data races only") {
  Scene s;
  s.checker.access(s.checker.enqueue(s.copy, s.loader, "read"), &s.batch, 8, Access::read);
  s.read(s.main, s.batch);
  CHECK(s.races() == 0);
}

TEST_CASE("pinned memory may be refilled once the copy out of it is known to be complete") {
  const auto refill = [](Scene& s, bool synchronized) {
    s.checker.allocated_for_host(&s.pinned, sizeof s.pinned, s.loader);
    s.host_write(s.loader, s.pinned);
    s.checker.release(s.loader, 1);
    s.checker.acquire(s.trainer, 1);
    s.read(s.copy, s.pinned, "h2d");
    s.record(1, s.copy);
    s.checker.release(s.trainer, 2);
    s.checker.acquire(s.loader, 2);
    if (synchronized) s.checker.event_synchronized(Scene::key(1), s.loader);
    s.host_write(s.loader, s.pinned);
  };
  Scene right, wrong;
  refill(right, true);
  CHECK(right.races() == 0);
  refill(wrong, false);
  REQUIRE(wrong.races() == 1);
  CHECK(wrong.race().kind == Kind::write_after_read);
  CHECK_THAT(wrong.race().message,
             ContainsSubstring("record on copy after op 3, synchronize thread loader with it "
                               "before op 4"));
}

TEST_CASE("an event that a stream waited for does not make pinned memory safe for the host") {
  Scene s;
  s.read(s.copy, s.pinned, "h2d");
  s.order(s.copy, s.main);
  s.read(s.main, s.batch);
  s.host_write(s.trainer, s.pinned);
  CHECK(s.races() == 1);
}

TEST_CASE("pinned memory that is freed and reused while a copy reads it is early reuse") {
  Scene s;
  s.checker.allocated_for_host(&s.pinned, sizeof s.pinned, s.trainer);
  s.read(s.copy, s.pinned, "h2d");
  s.free(s.pinned);
  s.checker.allocated_for_host(&s.pinned, sizeof s.pinned, s.trainer);
  REQUIRE(s.races() == 1);
  CHECK(s.race().kind == Kind::early_reuse);
}

TEST_CASE("a callback follows its stream's work, and later work there follows it") {
  Scene s;
  s.write(s.copy, s.batch);
  const auto callback = s.checker.begin_callback(s.copy, s.trainer, "ship");
  const auto later = s.write(s.copy, s.output);  // enqueued before the callback runs
  s.host_write(callback, s.batch);
  s.host_read(callback, s.output);
  s.checker.end_callback(callback);
  CHECK(s.races() == 0);
  CHECK(later > 0);
  s.host_read(s.trainer, s.batch);
  REQUIRE(s.races() == 1);
  CHECK_THAT(s.race().message, ContainsSubstring("record on copy after callback ship"));
}

TEST_CASE("work on another stream does not follow a callback that has yet to run") {
  Scene s;
  const auto callback = s.checker.begin_callback(s.copy, s.trainer, "ship");
  s.write(s.main, s.batch);
  s.host_read(callback, s.batch);
  REQUIRE(s.races() == 1);
  CHECK_THAT(s.race().message, ContainsSubstring("wait on copy before callback ship"));
}

TEST_CASE("a late access by a callback is checked although its stream has written since") {
  Scene s;
  const auto callback = s.checker.begin_callback(s.copy, s.trainer, "ship");
  const auto beside = s.write(s.main, s.batch, "update");
  s.order(s.main, s.copy);
  s.write(s.copy, s.batch, "behind");
  s.host_read(callback, s.batch);
  REQUIRE(s.races() == 1);
  CHECK(s.race().first == beside);
}

TEST_CASE("a free in a host callback gives the memory to streams that wait for the callback") {
  const auto reuse = [](bool wait) {
    Scene s;
    s.allocate(s.batch, s.copy);
    s.read(s.copy, s.batch, "d2h");
    const auto callback = s.checker.begin_callback(s.copy, s.trainer, "ship");
    s.record(1, s.copy);
    s.checker.freed(&s.batch, callback);
    s.checker.release(callback, 7);  // the allocator's lock
    s.checker.end_callback(callback);
    s.checker.acquire(s.loader, 7);
    if (wait) s.checker.wait(s.main, Scene::key(1), s.trainer);
    s.checker.allocated(&s.batch, sizeof s.batch, wait ? s.main : s.dist, s.trainer);
    return s.races();
  };
  CHECK(reuse(true) == 0);
  CHECK(reuse(false) == 1);
}

TEST_CASE("what a callback acquires orders work that is enqueued after its end") {
  Scene s;
  const auto callback = s.checker.begin_callback(s.copy, s.trainer, "await");
  s.host_write(s.loader, s.pinned);
  s.checker.release(s.loader, 1);
  s.checker.acquire(callback, 1);
  s.host_read(callback, s.pinned);
  s.checker.end_callback(callback);
  s.read(s.copy, s.pinned, "h2d");
  CHECK(s.races() == 0);
}

TEST_CASE("synchronizing the device waits for a callback whose stream was destroyed") {
  Scene s;
  const auto callback = s.checker.begin_callback(s.copy, s.trainer, "ship");
  s.host_write(s.loader, s.pinned);
  s.checker.release(s.loader, 1);
  s.checker.remove_stream(s.copy);
  s.checker.acquire(callback, 1);
  s.host_write(callback, s.batch);
  s.checker.end_callback(callback);
  s.checker.device_synchronized(s.trainer);
  s.host_read(s.trainer, s.batch);
  s.host_read(s.trainer, s.pinned);
  CHECK(s.races() == 0);
}

TEST_CASE("a new thread is ordered only after what it acquires") {
  Scene s;
  s.host_write(s.trainer, s.pinned);
  s.checker.release(s.trainer, 1);
  s.host_write(s.trainer, s.batch);
  const auto shipper = s.checker.add_thread("shipper");
  s.checker.acquire(shipper, 1);
  s.host_read(shipper, s.pinned);
  CHECK(s.races() == 0);
  s.host_read(shipper, s.batch);
  CHECK(s.races() == 1);
}

TEST_CASE("a thread that has ended does not keep history") {
  Scene s;
  s.host_write(s.trainer, s.batch);
  s.checker.forget_dominated();
  CHECK(s.checker.history_size() == 1);
  s.checker.remove_thread(s.loader);
  CHECK_THROWS_AS(s.host_read(s.loader, s.batch), std::invalid_argument);
  s.checker.forget_dominated();
  CHECK(s.checker.history_size() == 0);
}

TEST_CASE("history stays small over a long run of reused, partly touched memory") {
  Scene s;
  std::size_t most = 0;
  for (int step = 0; step < 20'000; ++step) {
    s.allocate(s.batch, s.copy);
    s.write(s.copy, s.batch);
    s.order(s.copy, s.main);
    const auto gather = s.checker.enqueue(s.main, s.trainer, "gather");
    for (std::size_t row = 0; row < 8; ++row) {
      const std::size_t at = (row * 7 + static_cast<std::size_t>(step)) % 60;
      s.checker.access(gather, &s.batch.bytes[at], 4, Access::read);
    }
    s.free(s.batch);
    s.order(s.main, s.copy);
    most = std::max(most, s.checker.history_size());
  }
  CHECK(s.races() == 0);
  CHECK(most < 200);
}

TEST_CASE("one-shot streams, callbacks and fresh memory leave bounded history") {
  RaceChecker checker;
  const auto thread = checker.add_thread("host");
  std::vector<std::byte> memory(20'000);
  std::size_t most = 0;
  RaceChecker::Actor highest = 0;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const auto once = checker.add_stream("once", false);
    highest = std::max(highest, once);
    checker.access(checker.enqueue(once, thread, "write"), &memory[i], 1, Access::write);
    const auto callback = checker.begin_callback(once, thread, "done");
    checker.access(checker.host_operation(callback, "look"), &memory[i], 1, Access::read);
    checker.end_callback(callback);
    checker.stream_synchronized(once, thread);
    checker.remove_stream(once);
    most = std::max(most, checker.history_size());
  }
  CHECK(checker.races().empty());
  CHECK(most < 5'000);
  CHECK(highest < 500);
}

TEST_CASE("forgetting memory erases its accesses and its free") {
  Scene s;
  s.allocate(s.batch, s.main);
  s.write(s.main, s.batch);
  CHECK_THROWS_AS(s.checker.forget(&s.batch, 1), std::invalid_argument);
  s.free(s.batch);
  s.checker.forget(&s.batch, sizeof s.batch);
  s.write(s.copy, s.batch);
  CHECK(s.races() == 0);
  CHECK(s.checker.history_size() == 1);
}

TEST_CASE("taken races are removed from the checker, and name both operations") {
  Scene s;
  s.write(s.main, s.batch, "backward");
  s.write(s.copy, s.batch, "h2d");
  const auto taken = s.checker.take_races();
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].first_name == "backward");
  CHECK(taken[0].second_name == "h2d");
  CHECK(s.races() == 0);
}

TEST_CASE("a race names a free as the program named it") {
  Scene s;
  s.checker.allocated(&s.batch, sizeof s.batch, s.main, s.trainer, "pool.take");
  s.checker.freed(&s.batch, s.trainer, "pool.give");
  s.write(s.main, s.batch);
  REQUIRE(s.races() == 1);
  CHECK(s.race().first_name == "pool.give");
}

TEST_CASE("memory whose first user is unknown is checked at its first use") {
  Scene s;
  s.allocate(s.batch, s.main);
  s.write(s.main, s.batch);
  s.free(s.batch);
  s.checker.allocated_for_any(&s.batch, sizeof s.batch, s.trainer);
  CHECK(s.races() == 0);
  s.write(s.copy, s.batch);
  REQUIRE(s.races() == 1);
  CHECK(s.race().kind == Kind::early_reuse);
}

}  // namespace
}  // namespace millrace::test
