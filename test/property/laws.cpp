#include "millrace/observe/ladder.hpp"
#include "test/property/run.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

TEST_CASE("laws 1 and 2 hold for any program on any allocator under any schedule") {
  REQUIRE(rc::check([] {
    const auto setup = *random_setup();
    const auto program = *random_program();
    World world{setup};
    run(world, program);
  }));
}

TEST_CASE("laws 1 and 2 hold for threads that share streams and an allocator") {
  REQUIRE(rc::check([] {
    auto setup = *rc::gen::suchThat(random_setup(), [](const Setup& drawn) {
      return drawn.preset != Preset::pinned;  // the threads do not order their host writes
    });
    const auto programs = *rc::gen::container<std::vector<Program>>(3, random_program(0.7));
    World world{setup};
    std::vector<std::unique_ptr<Executor::Task>> threads;
    for (const Program& program : programs) {
      threads.push_back(world.machine.executor().spawn("thread", [&world, &program] {
        Interpreter interpreter{world};
        interpreter.shares_world = true;
        for (const Step& step : program) interpreter.run(step);
        interpreter.read_all();
        interpreter.free_all();
      }));
    }
    for (const auto& thread : threads) thread->join();
    world.check_sums();
    world.check_order();
  }));
}

TEST_CASE("law 3: the ladder's levels are in order, and end at the reserved bytes") {
  REQUIRE(rc::check([] {
    const auto setup = *random_setup();
    const auto program = *random_program();
    World world{setup};
    run(world, program);
    const std::size_t reserved = world.allocator->statistics().bytes.reserved.peak;
    LadderOptions options;
    if (world.host_memory()) options.rule = ReuseRule::host_time;
    if (world.caching == nullptr) {
      options.reuse_proves_order = true;
      options.reserved = reserved;
    }
    const Ladder ladder = attribute(world.trace, options);
    RC_ASSERT(ladder.requested == world.allocator->statistics().bytes.requested.peak);
    RC_ASSERT(ladder.requested <= ladder.rounded);
    RC_ASSERT(ladder.rounded <= ladder.ordered);
    RC_ASSERT(ladder.ordered <= ladder.packed);
    RC_ASSERT(ladder.packed <= ladder.reserved);
    RC_ASSERT(ladder.reserved == reserved);
  }));
}

TEST_CASE("law 3: nothing is reserved after everything is freed and trimmed") {
  REQUIRE(rc::check([] {
    const auto setup = *random_setup();
    const auto program = *random_program();
    World world{setup};
    run_to_nothing(world, program);
  }));
}

TEST_CASE("cached memory of all streams serves a request for nearly all of the memory") {
  REQUIRE(rc::check([] {
    const auto setup = *rc::gen::suchThat(random_setup(), [](const Setup& drawn) {
      return drawn.preset != Preset::driver;  // the pool makes its own decisions
    });
    const auto program = *random_program();
    World world{setup};
    run(world, program);
    world.device.synchronize();
    const std::size_t most = setup.limit_bytes != 0 ? setup.limit_bytes : setup.memory_bytes;
    const std::size_t nearly_all = most - (std::size_t{4} << 20);
    Lane& lane = world.lane_at(0);
    void* const address = world.allocator->allocate(nearly_all, lane.ref);
    world.gave_out(address, nearly_all, lane);
    world.check_sums();
    world.check_order();
  }));
}

}  // namespace
}  // namespace millrace::test
