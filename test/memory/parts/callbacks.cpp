#include "memory/caching/callbacks.hpp"

#include <stdexcept>
#include <vector>

#include "test/support/catch.hpp"

namespace millrace::test {

TEST_CASE("callbacks run by turn, then in the order of registration, until one frees memory",
          "[parts]") {
  AdaptiveMutex mutex;
  Lock lock{mutex};
  Callbacks callbacks;
  std::vector<int> asked;
  const auto add = [&](int number, int turn) {
    callbacks.add(
        [&asked, &lock, number](std::size_t bytes) {
          CHECK(bytes == 100);
          CHECK_FALSE(lock.owns_lock());
          asked.push_back(number);
          return number == 3;
        },
        turn);
  };
  add(1, 5);
  add(2, 0);
  add(3, 5);
  add(4, 7);
  bool freed_any = false;
  callbacks.ask(100, lock, [&](bool freed) {
    CHECK(lock.owns_lock());
    freed_any = freed;
    return freed;
  });
  CHECK(asked == std::vector{2, 1, 3});
  CHECK(freed_any);
}

TEST_CASE("a callback that another callback adds runs the next time", "[parts]") {
  AdaptiveMutex mutex;
  Lock lock{mutex};
  Callbacks callbacks;
  int late = 0;
  bool added = false;
  callbacks.add(
      [&](std::size_t) {
        if (!std::exchange(added, true)) {
          callbacks.add([&](std::size_t) { return ++late > 0; }, 1);
        }
        return false;
      },
      0);
  const auto never = [](bool) { return false; };
  callbacks.ask(1, lock, never);
  CHECK(late == 0);
  callbacks.ask(1, lock, never);
  CHECK(late == 1);
}

TEST_CASE("a callback that throws leaves the lock held", "[parts]") {
  AdaptiveMutex mutex;
  Lock lock{mutex};
  Callbacks callbacks;
  callbacks.add([](std::size_t) -> bool { throw std::runtime_error{"no"}; }, 0);
  CHECK_THROWS_AS(callbacks.ask(1, lock, [](bool) { return false; }), std::runtime_error);
  CHECK(lock.owns_lock());
}

}  // namespace millrace::test
