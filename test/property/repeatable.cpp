#include "test/property/repeatable.hpp"

#include "test/property/run.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {

Recorded record(const Setup& setup, const Program& program, Flaw flaw) {
  World world{setup, flaw};
  run(world, program);
  Recorded result{{}, {}, world.modeled.calls(), world.machine.now()};
  const std::uintptr_t first = world.trace.segments().empty() ? 0 : world.trace.segments()[0].base;
  for (const TracedBlock& block : world.trace.blocks()) {
    result.offsets.push_back(world.host_memory()
                                 ? block.address - first
                                 : world.offset_of(reinterpret_cast<void*>(block.address)));
    result.lifetimes.emplace_back(block.allocated, block.freed);
  }
  return result;
}

namespace {

TEST_CASE("law 5: the same program and seed give the same addresses, trace and virtual time") {
  REQUIRE(rc::check([] {
    const auto setup = *random_setup();
    const auto program = *random_program();
    RC_ASSERT(record(setup, program) == record(setup, program));
  }));
}

}  // namespace
}  // namespace millrace::test
