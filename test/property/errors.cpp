#include "test/property/errors.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "test/property/run.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {

namespace {

/// Returns whether a step changes streams. Such a step also makes calls outside of the library.
bool changes_streams(const Step& step) {
  return step.kind == Step::renew_stream || step.kind == Step::attach;
}

/// Continues after the device is lost. A call must work without the device or fail with a sticky
/// error.
void carry_on(World& world, Interpreter& interpreter, const Program& rest) {
  const auto fails_cleanly = [&](auto call) {
    try {
      call();
    } catch (const DeviceError& error) {
      if (!error.sticky()) throw std::logic_error{"law 4: a lost device is called something else"};
    }
    world.check_sums();
  };
  for (const Step& step : rest) {
    if (changes_streams(step)) continue;
    fails_cleanly([&] { interpreter.run(step); });
  }
  world.drain();
  const std::map<void*, LiveBlock> left = world.live;
  for (const auto& [address, block] : left) {
    world.takes_back(address);
    world.allocator->deallocate(address);
    world.check_sums();
  }
  fails_cleanly([&] { world.allocator->trim(); });
  fails_cleanly([&] { world.ordered.synchronize(); });
}

std::string to_text(const LibraryFault::Fault& fault) {
  std::ostringstream text;
  text << to_string(fault.code) << " at " << to_string(fault.call) << " number " << fault.nth;
  return text.str();
}

}  // namespace

std::map<Call, std::uint64_t> count_calls(const Setup& setup, const Program& program) {
  World world{setup};
  run_to_nothing(world, program);
  std::map<Call, std::uint64_t> result;
  for (std::size_t i = 0; i < static_cast<std::size_t>(Call::count_); ++i) {
    const auto call = static_cast<Call>(i);
    if (world.faults.seen(call) > 0) result[call] = world.faults.seen(call);
  }
  return result;
}

void run_with_fault(const Setup& setup, const Program& program, LibraryFault::Fault fault,
                    Flaw flaw) {
  World world{setup, flaw};
  world.faults.plan(fault);
  if (fault.code != ErrorCode::device_lost) return run_to_nothing(world, program);
  Interpreter interpreter{world};
  for (auto step = program.begin(); step != program.end(); ++step) {
    try {
      interpreter.run(*step);
    } catch (const DeviceError&) {
      if (!world.faults.device_lost()) throw;
    }
    if (!world.faults.device_lost()) continue;
    const bool has_streams = !changes_streams(*step);  // otherwise the step may be half done
    return carry_on(world, interpreter, {has_streams ? step + 1 : program.end(), program.end()});
  }
}

namespace {

TEST_CASE("law 4: an error in any one call changes nothing, and the next call works") {
  REQUIRE(rc::check([] {
    const auto setup = *random_setup();
    const auto program = *random_program(1.0);
    for (const auto& [call, count] : count_calls(setup, program)) {
      const auto nth = *rc::gen::inRange<std::uint64_t>(1, count + 1);
      const auto code = *rc::gen::element(ErrorCode::unknown, ErrorCode::out_of_memory);
      RC_LOG() << to_text({call, nth, code}) << '\n';
      run_with_fault(setup, program, {call, nth, code});
    }
  }));
}

TEST_CASE("law 4: once the device is lost every call fails cleanly, whichever call noticed it") {
  REQUIRE(rc::check([] {
    const auto setup = *random_setup();
    const auto program = *random_program(1.0);
    for (const auto& [call, count] : count_calls(setup, program)) {
      const auto nth = *rc::gen::inRange<std::uint64_t>(1, count + 1);
      RC_LOG() << to_text({call, nth, ErrorCode::device_lost}) << '\n';
      run_with_fault(setup, program, {call, nth, ErrorCode::device_lost});
    }
  }));
}

TEST_CASE("law 4 holds for each call of a program in turn") {
  const auto preset = GENERATE(Preset::torch, Preset::millrace, Preset::waiting, Preset::ordered,
                               Preset::drop_in, Preset::pinned, Preset::driver);
  const auto setup = drawn(random_setup(preset), seed());
  // A short program may make no device call.
  constexpr std::uint64_t kTries = 64;
  Program program;
  std::map<Call, std::uint64_t> calls;
  for (std::uint64_t i = 0; i < kTries && calls.empty(); ++i) {
    program = drawn(random_program(0.5), seed() + i * kTries);
    calls = count_calls(setup, program);
  }
  REQUIRE(!calls.empty());
  for (const auto& [call, count] : calls) {
    for (std::uint64_t nth = 1; nth <= count; ++nth) {
      const LibraryFault::Fault fault{call, nth, ErrorCode::unknown};
      CAPTURE(setup, to_text(fault));
      REQUIRE_NOTHROW(run_with_fault(setup, program, fault));
    }
  }
}

}  // namespace
}  // namespace millrace::test
