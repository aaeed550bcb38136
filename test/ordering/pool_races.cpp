#include "test/ordering/scene.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using Kind = RaceChecker::RaceKind;

/** A driver's pool of one block. */
struct Pool : Scene {
  void take(RaceChecker::Actor stream) {
    checker.pool_allocated(&batch, sizeof(Block), stream, trainer);
  }
  void give(RaceChecker::Actor stream) { checker.pool_freed(&batch, stream, trainer); }
};

TEST_CASE("a pool may give memory that was freed on one stream to another stream") {
  Pool s;
  s.take(s.main);
  s.write(s.main, s.batch);
  s.give(s.main);
  s.take(s.copy);
  s.write(s.copy, s.batch);
  CHECK(s.races() == 0);
}

TEST_CASE("a pool that reuses memory orders nothing else between the two streams") {
  Pool s;
  s.write(s.main, s.output);
  s.take(s.main);
  s.give(s.main);
  s.take(s.copy);
  s.read(s.copy, s.output);
  REQUIRE(s.races() == 1);
  CHECK(s.race().kind == Kind::read_after_write);
}

TEST_CASE("a use of a pool's memory must be ordered after the allocation") {
  const auto use = [](bool ordered) {
    Pool s;
    s.take(s.copy);
    if (ordered) s.order(s.copy, s.main);
    s.read(s.main, s.batch, "forward");
    return s;
  };
  CHECK(use(true).races() == 0);
  Pool s = use(false);
  REQUIRE(s.races() == 1);
  CHECK(s.race().kind == Kind::use_before_allocate);
  CHECK_THAT(s.race().message, ContainsSubstring("forward") && ContainsSubstring("record on copy"));
}

TEST_CASE("a free into a pool must be ordered after every use of the memory") {
  const auto use = [](bool ordered) {
    Pool s;
    s.take(s.copy);
    s.order(s.copy, s.main);
    s.read(s.main, s.batch, "forward");
    if (ordered) s.order(s.main, s.copy);
    s.give(s.copy);
    return s;
  };
  CHECK(use(true).races() == 0);
  Pool s = use(false);
  REQUIRE(s.races() == 1);
  CHECK(s.race().kind == Kind::use_after_free);
  CHECK_THAT(s.race().message, ContainsSubstring("forward") && ContainsSubstring("wait on copy"));
}

TEST_CASE("a use of memory that was freed into a pool is a use after free") {
  Pool s;
  s.take(s.main);
  s.give(s.main);
  s.read(s.main, s.batch);
  REQUIRE(s.races() == 1);
  CHECK(s.race().kind == Kind::use_after_free);
}

TEST_CASE("a free into a pool by a thread not synchronized with a use is a use after free") {
  Pool s;
  s.take(s.main);
  s.read(s.main, s.batch);
  s.checker.pool_freed(&s.batch, s.main, s.loader);
  REQUIRE(s.races() == 1);
  CHECK(s.race().kind == Kind::use_after_free);
}

TEST_CASE("a pool has one block at an address at a time") {
  Pool s;
  s.take(s.main);
  CHECK_THROWS_AS(s.take(s.copy), std::invalid_argument);
  s.give(s.main);
  CHECK_THROWS_AS(s.give(s.main), std::invalid_argument);
}

}  // namespace
}  // namespace millrace::test
