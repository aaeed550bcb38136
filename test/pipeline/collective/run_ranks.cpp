#include "millrace/pipeline/collective/run_ranks.hpp"

#include <array>
#include <mutex>
#include <stdexcept>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/pipeline/collective/collective_error.hpp"
#include "test/support/catch.hpp"

using namespace millrace;

TEST_CASE("each rank runs once, to its end, as an actor with the rank's name") {
  VirtualMachine machine;
  std::array<int, 4> runs{};
  run_ranks(machine.executor(), 4, [&](unsigned rank) {
    CHECK(machine.calling_actor()->name == "rank " + std::to_string(rank));
    machine.executor().yield();
    ++runs[rank];
  });
  CHECK(runs == std::array{1, 1, 1, 1});
}

TEST_CASE("a rank's own error is thrown instead of a CollectiveError, after all ranks end") {
  VirtualMachine machine;
  int ended = 0;
  const auto run = [&] {
    run_ranks(machine.executor(), 3, [&](unsigned rank) {
      ++ended;
      if (rank == 1) throw std::out_of_range{"its own"};
      throw CollectiveError{1, "heard of it"};
    });
  };
  CHECK_THROWS_AS(run(), std::out_of_range);
  CHECK(ended == 3);
  CHECK_THROWS_AS(run_ranks(machine.executor(), 2,
                            [](unsigned) {
                              throw CollectiveError{0, "heard of it"};
                            }),
                  CollectiveError);
}

TEST_CASE("a rank's own error is thrown instead of the deadlock of a rank that waits for it") {
  VirtualMachine machine;
  const auto condition = machine.executor().make_condition();
  std::mutex mutex;
  const auto run = [&](bool throws) {
    run_ranks(machine.executor(), 3, [&](unsigned rank) {
      if (rank == 2 && throws) throw std::out_of_range{"its own"};
      if (rank == 1 && throws) throw CollectiveError{2, "heard of it"};
      std::unique_lock lock{mutex};
      condition->wait(lock);
    });
  };
  CHECK_THROWS_AS(run(true), std::out_of_range);
  CHECK_THROWS_AS(run(false), Deadlock);
}
