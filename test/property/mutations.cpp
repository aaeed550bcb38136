// Shows that each law can fail: an allocator with a flaw breaks its law within 64 seeds.

#include <stdexcept>

#include "test/property/errors.hpp"
#include "test/property/repeatable.hpp"
#include "test/property/run.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

constexpr int kSeeds = 64;

/// Returns the number of seeds (of 64) with which the check finds this law broken.
template <typename Check>
int found(Preset preset, const std::string& law, Check check) {
  int count = 0;
  for (int i = 0; i < kSeeds; ++i) {
    const std::uint64_t first = seed() * kSeeds + static_cast<std::uint64_t>(i);
    const auto setup = drawn(random_setup(preset), first);
    const auto program = drawn(random_program(4.0), first);
    try {
      check(setup, program);
    } catch (const std::logic_error& error) {
      count += std::string{error.what()}.find(law) != std::string::npos ? 1 : 0;
    } catch (const DeviceError&) {  // a use of unmapped memory counts as found
      ++count;
    }
  }
  return count;
}

int found(Preset preset, const std::string& law, Flaw flaw) {
  return found(preset, law, [flaw](const Setup& setup, const Program& program) {
    World world{setup, flaw};
    run_to_nothing(world, program);
  });
}

TEST_CASE("law 1 fails for an allocator that gives too few bytes, or memory in use") {
  const auto flaw = GENERATE(Flaw::gives_too_little, Flaw::gives_twice);
  CAPTURE(flaw);
  CHECK(found(Preset::torch, "law 1", flaw) > 0);
  CHECK(found(Preset::millrace, "law 1", flaw) > 0);
}

TEST_CASE("law 2 fails for an allocator that forgets reported uses") {
  const auto flaw = GENERATE(Flaw::forgets_uses, Flaw::forgets_markers);
  CAPTURE(flaw);
  CHECK(found(Preset::waiting, "law 2", flaw) > 0);
  CHECK(found(Preset::torch, "law 2", flaw) > 0);
}

TEST_CASE("law 2 fails for an allocator that orders each free on the owner") {
  const auto preset = GENERATE(Preset::torch, Preset::waiting);
  const auto check = [](const Setup& setup, Program program) {
    for (Step& step : program) {
      if (step.kind == Step::free) step.kind = Step::free_on;
    }
    World world{setup, Flaw::forgets_streams};
    run_to_nothing(world, program);
  };
  CHECK(found(preset, "law 2", check) > 0);
}

TEST_CASE("law 2 fails for pinned memory whose uses are forgotten") {
  CHECK(found(Preset::pinned, "law 2", Flaw::forgets_uses) > 0);
}

TEST_CASE("law 2 fails for the driver's pool under an allocator that forgets uses") {
  const auto check = [](Setup setup, Program program) {
    setup.schedule = VirtualMachine::Schedule::adversarial;
    setup.lanes.assign(3, LaneKind::plain);
    for (Step& step : program) step.choice = step.choice / 3 * 3;  // records every use
    World world{setup, Flaw::forgets_uses};
    run_to_nothing(world, program);
  };
  CHECK(found(Preset::driver, "law 2", check) > 0);
}

TEST_CASE("law 2 fails for an allocator that does not make its waits") {
  CHECK(found(Preset::waiting, "law 2", Flaw::drops_waits) > 0);
}

TEST_CASE("law 2 fails for an allocator that takes unfinished work for complete") {
  const auto preset = GENERATE(Preset::torch, Preset::waiting, Preset::pinned);
  CHECK(found(preset, "law 2", Flaw::believes_in_speed) > 0);
}

TEST_CASE("law 3 fails for an allocator that loses frees") {
  CHECK(found(Preset::driver, "law", Flaw::loses_frees) > 0);
  CHECK(found(Preset::millrace, "law", Flaw::loses_frees) > 0);
}

TEST_CASE("law 4 fails for an allocator that gives up after an error") {
  CHECK(found(Preset::millrace, "", [](const Setup& setup, const Program& program) {
          run_with_fault(setup, program, {Call::allocate, 1, ErrorCode::unknown}, Flaw::gives_up);
        }) > 0);
}

TEST_CASE("law 5 fails for an allocator whose runs differ") {
  CHECK(found(Preset::millrace, "law 5", [](const Setup& setup, const Program& program) {
          const bool same =
              record(setup, program, Flaw::is_moody) == record(setup, program, Flaw::is_moody);
          if (!same) throw std::logic_error{"law 5"};
        }) > 0);
}

TEST_CASE("without a flaw no law fails on these seeds") {
  const auto preset = GENERATE(Preset::torch, Preset::millrace, Preset::waiting, Preset::ordered,
                               Preset::drop_in, Preset::pinned, Preset::driver);
  CHECK(found(preset, "", Flaw::none) == 0);
}

}  // namespace
}  // namespace millrace::test
