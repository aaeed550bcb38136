#include "test/support/catch.hpp"
#include "test/virtual_cuda/processes/run.hpp"

using Catch::Matchers::ContainsSubstring;
using millrace::test::Ran;
using millrace::test::run;

TEST_CASE("a checked program with races ends with 4 instead of 0") {
  const std::string schedule = GENERATE("instant", "lag:9", "adversarial:2", "h100");
  const std::string environment = "MILLRACE_VIRTUAL=" + schedule + " MILLRACE_VIRTUAL_REPORT=- ";
  const Ran ran = run("race", environment + "MILLRACE_VIRTUAL_CHECK=on");
  CHECK(ran.code == 4);
  CHECK(ran.output.size() == 2);  // the program's output is not lost
  CHECK_THAT(ran.errors, ContainsSubstring("race (read after write): cudaMemsetAsync at "
                                           "virtual_cuda_program+0x"));
  CHECK_THAT(ran.errors, ContainsSubstring("  races: 1 (1 pairs of places"));

  CHECK(run("race_and_fail", environment + "MILLRACE_VIRTUAL_CHECK=on").code == 7);
  const Ran clean = run("use_a_pool", environment + "MILLRACE_VIRTUAL_CHECK=on");
  CHECK(clean.code == 0);
  CHECK_THAT(clean.errors, ContainsSubstring("  races: 0\n"));
}

TEST_CASE("a forked child does not end with the races of its parent") {
  CHECK(run("race_in_a_parent", "MILLRACE_VIRTUAL_CHECK=on").code == 5);
}

TEST_CASE("a program is not checked by default") {
  const std::string off = GENERATE("", "MILLRACE_VIRTUAL_CHECK=", "MILLRACE_VIRTUAL_CHECK=off",
                                   "MILLRACE_VIRTUAL_CHECK=0");
  const Ran ran = run("race", off + " MILLRACE_VIRTUAL_REPORT=-");
  CHECK(ran.code == 0);
  CHECK_THAT(ran.errors, !ContainsSubstring("race (") && !ContainsSubstring("races:"));
}

TEST_CASE("an unknown value of MILLRACE_VIRTUAL_CHECK is refused with the valid values") {
  const Ran ran = run("print_error_of_first_call", "MILLRACE_VIRTUAL_CHECK=yes");
  CHECK(ran.output == "cudaErrorInitializationError\n");
  CHECK_THAT(ran.errors, ContainsSubstring("MILLRACE_VIRTUAL_CHECK: 'yes' is not known; it takes "
                                           "off, on or threads"));
}
