#include "ship/retrier.hpp"

#include "millrace/device/virtual_machine.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::ship;
using namespace std::chrono_literals;

namespace {

struct Scene {
  VirtualMachine machine;
  Executor& executor = machine.executor();
  ShippingOptions options{.first_retry = 1ms, .longest_retry = 4ms};
  Lifecycle lifecycle{executor};
  Retrier retrier{executor, options, lifecycle};
};

[[noreturn]] void refuse(SinkError::Kind kind) { throw SinkError{kind, "down"}; }

}  // namespace

TEST_CASE("a call is repeated until it succeeds, and its failures are reported meanwhile") {
  Scene scene;
  int calls = 0;
  const int result = scene.retrier.insist([&] {
    if (++calls > 1) {
      CHECK(scene.retrier.health().error == "down");
      CHECK(scene.retrier.health().failing_for > 0ns);
    }
    if (calls < 4) refuse(SinkError::Kind::retry);
    return 7;
  });
  CHECK(result == 7);
  CHECK(calls == 4);
  CHECK(scene.retrier.failures() == 3);
  CHECK(scene.retrier.health().failing_for == 0ns);
  CHECK(scene.retrier.last_error() == "down");
  CHECK(scene.executor.now() >= 500us + 1ms + 2ms);  // at least half of 1, 2 and 4 ms
}

TEST_CASE("an error that a retry cannot fix is thrown at once") {
  Scene scene;
  CHECK_THROWS_AS(scene.retrier.insist([] { refuse(SinkError::Kind::lost); }), SinkError);
  CHECK(scene.retrier.failures() == 0);
}

TEST_CASE("a deadline that is set during a pause ends the pause") {
  Scene scene;
  int calls = 0;
  const auto call = [&] {
    if (++calls == 2) scene.lifecycle.close(0ns);
    refuse(SinkError::Kind::retry);
  };
  CHECK_THROWS_AS(scene.retrier.insist(call), OutOfTime);
  CHECK(calls == 2);
}
