#include <set>

#include "test/support/catch.hpp"
#include "test/virtual_cuda/processes/run.hpp"

using Catch::Matchers::ContainsSubstring;
using millrace::test::Ran;
using millrace::test::run;

namespace {

std::string every_schedule() {
  return GENERATE("instant", "lag:1", "lag:100", "adversarial:1", "adversarial:2", "h200");
}

}  // namespace

TEST_CASE("a forked child can use CUDA only if it makes the first call") {
  const std::string schedule = every_schedule();
  CAPTURE(schedule);
  for (const char* const name : {"fork_after_first_call", "fork_before_first_call"}) {
    const Ran ran = run(name, "MILLRACE_VIRTUAL=" + schedule);
    CAPTURE(name, ran.errors);
    CHECK(ran.code == 0);
  }
}

TEST_CASE("a program may exit in a host function, or with work pending") {
  const std::string schedule = every_schedule();
  CAPTURE(schedule);
  CHECK(run("exit_in_a_host_function", "MILLRACE_VIRTUAL=" + schedule).code == 3);
  CHECK(run("exit_with_pending_work", "MILLRACE_VIRTUAL=" + schedule).code == 0);
}

TEST_CASE("static objects may free memory before and after the runtime is unloaded") {
  const std::string schedule = every_schedule();
  CAPTURE(schedule);
  for (const char* const name : {"free_in_an_early_destructor", "free_in_a_late_destructor"}) {
    const Ran ran = run(name, "MILLRACE_VIRTUAL=" + schedule);
    CAPTURE(name, ran.errors);
    CHECK(ran.code == 0);
  }
}

TEST_CASE("a failing kernel fails every later call, and the report is still written") {
  const std::string schedule = every_schedule();
  CAPTURE(schedule);
  const Ran ran = run("lose_the_gpu", "MILLRACE_VIRTUAL_REPORT=- MILLRACE_VIRTUAL=" + schedule);
  CAPTURE(ran.errors);
  CHECK(ran.code == 0);
  CHECK_THAT(ran.errors, ContainsSubstring("peak memory"));
}

TEST_CASE("a graph's loop that cannot end fails with the reason") {
  const std::string schedule = every_schedule();
  CAPTURE(schedule);
  for (const char* const name : {"loop_without_a_kernel", "loop_with_a_disabled_kernel"}) {
    const Ran ran = run(name, "MILLRACE_VIRTUAL=" + schedule);
    CAPTURE(name, ran.errors);
    CHECK(ran.code == 0);
    CHECK_THAT(ran.errors, ContainsSubstring(
                               "millrace virtual CUDA: a WHILE node does not end: its body has no "
                               "kernel that could set its condition: cudaErrorLaunchTimeout\n"));
  }
}

TEST_CASE("a graph's loop with many passes runs in bounded host memory") {
  const std::string schedule = every_schedule();
  CAPTURE(schedule);
  const Ran ran = run("loop_that_ends_late", "MILLRACE_VIRTUAL=" + schedule);
  CAPTURE(ran.errors);
  CHECK(ran.code == 0);
}

TEST_CASE("an access of the host to device memory ends the program") {
  // A signal ends the program, or a sanitizer that reports the signal. Otherwise it would return
  // the 0 that it reads.
  CHECK(run("touch_device_memory", "").code != 0);
}

TEST_CASE("a call that is not supported is named once") {
  const Ran ran = run("call_what_is_refused", "");
  CHECK(ran.code == 0);
  CHECK(ran.errors ==
        "millrace virtual CUDA: cudaDeviceGetNvSciSyncAttributes is not supported (NvSci): "
        "cudaErrorNotSupported\n");
  CHECK(run("add_a_memory_operation", "").errors ==
        "millrace virtual CUDA: cudaGraphAddNode is not supported (stream memory operations): "
        "cudaErrorNotSupported\n");
}

TEST_CASE("seeds give both orders of an unordered pair, and one seed repeats its order") {
  std::set<std::string> results;
  for (int seed = 1; seed <= 8; ++seed) {
    const std::string schedule = "MILLRACE_VIRTUAL=adversarial:" + std::to_string(seed);
    const Ran first = run("race", schedule);
    REQUIRE(first.code == 0);
    CHECK_THAT(first.errors, ContainsSubstring("schedule adversarial:" + std::to_string(seed)));
    CHECK(run("race", schedule).output == first.output);
    results.insert(first.output);
  }
  CHECK(results == std::set<std::string>{"a\n", "b\n"});
  CHECK(run("race", "MILLRACE_VIRTUAL=instant").output == "b\n");
}

TEST_CASE("a copy takes the virtual time that its profile gives") {
  // copy.latency and copy.host_to_device of the profile, and order.record_latency
  const double expected = 2e-3 + (1 << 26) / 54.9e9 * 1e3 + 0.5e-3;
  const Ran ran = run("time_of_a_copy", "MILLRACE_VIRTUAL=h200");
  REQUIRE(ran.code == 0);
  CHECK(std::stod(ran.output) == Approx(expected).epsilon(0.01));
  CHECK(run("time_of_a_copy", "MILLRACE_VIRTUAL=h200").output == ran.output);
}
