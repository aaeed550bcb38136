#include "millrace/device/fault.hpp"
#include "test/pipeline/sharding/sharded_machine.hpp"
#include "test/pipeline/sharding/sharded_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kFailureExamples = 8, kShare = 4,
                      kFailureSteps = 2;  // examples of both ranks, of each rank; steps

enum class Part { start, receive, arrange };

struct FailureOutcome {
  std::vector<std::vector<float>> trained[2];
  std::string errors[2];  ///< the text of each rank's CollectiveError
  bool failed = false;    ///< the call that has to fail was reached
  std::vector<std::string> races;
  std::int64_t pinned = 0;  ///< pieces of pinned memory that are live at the end
};

/// Counts live pieces of pinned memory.
class PinnedCount final : public DeviceObserver {
 public:
  PinnedCount(Device& device, std::int64_t& left) : device_(device), left_(left) {
    device.add_observer(*this);
  }
  ~PinnedCount() override { device_.remove_observer(*this); }

  void after(Call call) override {
    if (call == Call::allocate_host) ++left_;
    if (call == Call::free_host) --left_;
  }

 private:
  Device& device_;
  std::int64_t& left_;
};

/// Runs `train` as each rank and keeps the text of a CollectiveError.
template <typename Train>
FailureOutcome run_ranks(ShardedMachine& machine, const Train& train) {
  FailureOutcome outcome;
  machine.run([&](ShardedMachine::Place& place) {
    try {
      train(place, outcome);
    } catch (const CollectiveError& error) {
      outcome.errors[place.number] = error.what();
    }
  });
  outcome.races = machine.races();
  return outcome;
}

/// Keeps what the rank trained, then waits for the other rank.
void finish(ShardedMachine::Place& place, ShardedRank& rank, FailureOutcome& outcome) {
  outcome.trained[place.number] = rank.trained().values;
  place.group.barrier();
}

/// Two ranks train. In one part of the exchange, call number `call` of rank 1 fails (0: none). The
/// part is repeated until it succeeds.
FailureOutcome train(Part part, std::uint64_t call, std::uint64_t schedule) {
  const SparseNNConfig config = sharded_config();
  const ShardingPlan plan = plan_named("mixed", config, 2);
  ShardedMachine machine{2, schedule};
  return run_ranks(machine, [&](ShardedMachine::Place& place, FailureOutcome& outcome) {
    FaultInjector faults{place.device};  // made first, so failed calls are not counted
    const PinnedCount count{place.device, outcome.pinned};
    ShardedRank rank{place.ordered, &machine.checking, config, plan, &place.group};
    const auto until_done = [&](bool fails, const auto& what) {
      if (fails && place.number == 1) faults.fail_call(call, ErrorCode::unknown);
      for (;;) {
        try {
          auto done = what();
          faults.clear();
          return done;
        } catch (const DeviceError&) {
          outcome.failed = true;
        }
      }
    };
    for (std::size_t step = 0; step < kFailureSteps; ++step) {
      const GlobalBatch batch{config, step, kFailureExamples};
      const std::size_t first = place.number * kShare;
      const bool fails = call > 0 && step == 1;
      const auto flight = until_done(fails && part == Part::start,
                                     [&] { return rank.start(batch, first, kShare); });
      until_done(fails && part == Part::receive, [&] {
        flight->receive(Waits::precise);
        return true;
      });
      rank.train(batch, first, kShare,
                 until_done(fails && part == Part::arrange, [&] { return flight->arrange(); }));
    }
    finish(place, rank, outcome);
  });
}

/// Trains while that call fails, and checks that the result is that of a run without a failure.
FailureOutcome train_as_whole(Part part, std::uint64_t call, const FailureOutcome& whole) {
  const std::uint64_t schedule = call % 2 == 0 ? 0 : seed() * 1000 + call;
  FailureOutcome outcome = train(part, call, schedule);
  INFO("call " << call << ", schedule " << schedule);
  CHECK(outcome.errors[0].empty());
  CHECK(outcome.errors[1].empty());
  CHECK(outcome.trained[0] == whole.trained[0]);
  CHECK(outcome.trained[1] == whole.trained[1]);
  CHECK(outcome.races == std::vector<std::string>{});
  return outcome;
}

}  // namespace

TEST_CASE("arrange succeeds on a second call after a failure") {
  const FailureOutcome whole = train(Part::arrange, 0, 0);
  for (std::uint64_t call = 1;; ++call) {
    const FailureOutcome outcome = train_as_whole(Part::arrange, call, whole);
    if (!outcome.failed) {
      CHECK(call > 4);  // each of two sides is copied and scanned
      break;
    }
  }
}

TEST_CASE("an exchange that fails to start leaks no memory, and starts at the next call") {
  const FailureOutcome whole = train(Part::start, 0, 0);
  for (std::uint64_t call = 1;; ++call) {
    const FailureOutcome outcome = train_as_whole(Part::start, call, whole);
    CHECK(outcome.pinned == 0);
    if (!outcome.failed) {
      CHECK(call > 20);
      break;
    }
  }
}

TEST_CASE("a failed receipt of features succeeds at the next call, or both ranks get an error") {
  const FailureOutcome whole = train(Part::receive, 0, 0);
  std::size_t repeated = 0, given_up = 0;
  for (std::uint64_t call = 1;; ++call) {
    const std::uint64_t schedule = call % 2 == 0 ? 0 : seed() * 1000 + call;
    const FailureOutcome outcome = train(Part::receive, call, schedule);
    INFO("call " << call << ", schedule " << schedule);
    CHECK(outcome.errors[0] == outcome.errors[1]);
    CHECK(outcome.races == std::vector<std::string>{});
    if (outcome.errors[0].empty()) {
      CHECK(outcome.trained[0] == whole.trained[0]);
      CHECK(outcome.trained[1] == whole.trained[1]);
    } else {
      CHECK_THAT(outcome.errors[0], Catch::Matchers::ContainsSubstring("rank 1 failed: "));
    }
    if (!outcome.failed) break;
    ++(outcome.errors[0].empty() ? repeated : given_up);
  }
  CHECK(repeated > 0);
  CHECK(given_up >= 5);  // the all-to-alls of two sides
}

namespace {

/// Two ranks train through a pipeline. Call number `call` of rank 1 fails, and training continues.
FailureOutcome train(PipelineKind kind, std::uint64_t call) {
  const SparseNNConfig config = sharded_config();
  const ShardingPlan plan = plan_named("row-wise", config, 2);
  ShardedMachine machine{2};
  return run_ranks(machine, [&](ShardedMachine::Place& place, FailureOutcome& outcome) {
    FaultInjector faults{place.device};
    ShardedRank rank{place.ordered, &machine.checking, config, plan, &place.group};
    rank.goes_on = true;
    if (call > 0 && place.number == 1) faults.fail_call(call, ErrorCode::unknown);
    rank.run(kind, {.waits = Waits::precise, .stale = {.start_batch = 1}}, 5, kFailureExamples,
             place.number * kShare, kShare);
    outcome.failed = faults.injected() > 0;
    faults.clear();
    finish(place, rank, outcome);
  });
}

}  // namespace

TEST_CASE("after a driver call fails, both ranks train to the same bits or both get an error") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  const FailureOutcome whole = train(kind, 0);
  std::size_t as_if_none_had = 0, errors = 0;
  for (std::uint64_t call = 1 + seed() % 17; call < 450; call += 17) {
    const FailureOutcome outcome = train(kind, call);
    INFO(to_string(kind) << ", call " << call);
    CHECK(outcome.errors[0] == outcome.errors[1]);
    if (outcome.errors[0].empty()) {
      CHECK(outcome.trained[0] == whole.trained[0]);
      CHECK(outcome.trained[1] == whole.trained[1]);
      ++as_if_none_had;
    } else {
      CHECK_THAT(outcome.errors[0], Catch::Matchers::StartsWith("rank 1 failed: "));
      ++errors;
    }
  }
  CHECK(as_if_none_had > 0);
  CHECK(errors > 0);
}

}  // namespace millrace::test
