#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "test/support/catch.hpp"
#include "test/virtual_cuda/processes/run.hpp"

using Catch::Matchers::ContainsSubstring;
using millrace::test::Ran;
using millrace::test::run;

TEST_CASE("an unknown setting is refused with the valid settings") {
  const auto [value, message] = GENERATE(table<std::string, std::string>({
      {"soon",
       "unknown schedule 'soon'; a schedule is instant, lag:N, adversarial:SEED, a100, h100 or "
       "h200"},
      {"lag:", "'' in lag: is not a number; lag:N needs a number of operations"},
      {"lag:x", "'x' in lag:x is not a number; lag:N needs a number of operations"},
      {"adversarial:-1", "'-1' in adversarial:-1 is not a number; adversarial:SEED needs a number"},
      {"instant,gpus=0", "gpus=0 is out of range; gpus=N takes 1 to 16"},
      {"instant,gpus=17", "gpus=17 is out of range; gpus=N takes 1 to 16"},
      {"instant,profile=v100", "unknown profile 'v100'; a profile is a100, h100 or h200"},
      {"instant,memory=1", "memory=1 is out of range; memory=SIZE takes 64MiB to 1TiB"},
      {"instant,memory=big", "'big' in memory=big is not a size; memory=SIZE takes 64MiB to 1TiB"},
      {"instant,speed=1",
       "unknown option 'speed=1'; an option is profile=NAME, gpus=N or memory=SIZE"},
      {"instant,", "unknown option ''; an option is profile=NAME, gpus=N or memory=SIZE"},
  }));
  const Ran ran = run("print_error_of_first_call", "MILLRACE_VIRTUAL=" + value);
  CHECK(ran.output == "cudaErrorInitializationError\n");
  CHECK_THAT(ran.errors, ContainsSubstring("millrace virtual CUDA: MILLRACE_VIRTUAL: " + message));
}

TEST_CASE("valid settings are accepted, also an empty one") {
  const auto* const value = GENERATE("", "MILLRACE_VIRTUAL=", "MILLRACE_VIRTUAL=lag:0,gpus=16",
                                     "MILLRACE_VIRTUAL=adversarial:18446744073709551615",
                                     "MILLRACE_VIRTUAL=instant,profile=a100,gpus=3,memory=1.5GiB");
  CHECK(run("print_error_of_first_call", value).output == "cudaSuccess\n");
}

TEST_CASE("a GPU has the attributes of its profile's chip, in CUDA's units") {
  const auto [profile, chip] = GENERATE(table<std::string, std::string>({
      {"a100", "8 0 108 41943040 167936 5120 1410000 1593000 "},
      {"h100", "9 0 132 52428800 233472 5120 1980000 2619000 "},
      {"h200", "9 0 132 52428800 233472 6144 1980000 3201000 "},
  }));
  CHECK(run("print_chip", "MILLRACE_VIRTUAL=instant,profile=" + profile).output == chip);
}

TEST_CASE("a library of kernels that cannot be loaded is named") {
  const Ran ran = run("print_error_of_first_call", "MILLRACE_VIRTUAL_KERNELS=/nowhere/lib.so");
  CHECK(ran.output == "cudaErrorInitializationError\n");
  CHECK_THAT(ran.errors, ContainsSubstring("MILLRACE_VIRTUAL_KERNELS: /nowhere/lib.so"));
}

namespace {

/** Writes a file with this text, to which a variable can point. */
std::string costs_file(const std::string& text) {
  const std::string name =
      (std::filesystem::temp_directory_path() / ("costs_" + std::to_string(getpid()))).string();
  std::ofstream{name} << text;
  return name;
}

}  // namespace

TEST_CASE("a kernel takes the time of the first matching row of a table") {
  const auto* const schedule = GENERATE("instant", "lag:3", "adversarial:1", "h200");
  const std::string file = costs_file(
      "# times of kernels\n\n"
      "1.5s   void app::gemm<float>(*\n"
      "1ms\t_ZN3app4gemm*\n"
      "2000us app::copy(void\\*, void const\\*, *)\n");
  const Ran ran = run("times_of_kernels", std::string{"MILLRACE_VIRTUAL="} + schedule +
                                              " MILLRACE_VIRTUAL_COSTS=" + file);
  std::filesystem::remove(file);
  CAPTURE(schedule, ran.errors);
  CHECK(ran.code == 0);
  std::istringstream times{ran.output};
  double gemm = 0, copy = 0;
  times >> gemm >> copy;
  CHECK(gemm >= 1.5e6);
  CHECK(gemm < 1e7);
  CHECK(copy >= 2000);
  CHECK(copy < 1e6);
}

TEST_CASE("a kernel takes the time of its pointers' bytes if a table says so") {
  const auto* const schedule = GENERATE("instant", "lag:3", "adversarial:1", "h200");
  const bool told = GENERATE(true, false);
  const std::string file = costs_file(told ? "bytes app::*\nbytes plain\n" : "bytes other::*\n");
  const Ran ran = run("times_by_bytes", std::string{"MILLRACE_VIRTUAL="} + schedule +
                                            " MILLRACE_VIRTUAL_COSTS=" + file);
  std::filesystem::remove(file);
  CAPTURE(schedule, told, ran.errors, ran.output);
  REQUIRE(ran.code == 0);
  std::istringstream times{ran.output};
  double two_blocks = 0, half = 0, of_pool = 0, in_class = 0, plain = 0;
  times >> two_blocks >> half >> of_pool >> in_class >> plain;
  // 960 MiB at 4.8 TB/s. Launches and records take the rest of the measured times.
  constexpr double kTwoBlocks = 960.0 * (1 << 20) / 4.8e12 * 1e9;
  constexpr double kMost = 1.4;
  if (!told) {
    if (std::string_view{schedule} == "h200") CHECK(two_blocks < kTwoBlocks / 4);
    return;
  }
  CHECK(two_blocks >= kTwoBlocks);
  CHECK(half >= kTwoBlocks / 4);
  CHECK(of_pool >= kTwoBlocks / 4);
  if (std::string_view{schedule} != "h200") return;
  CHECK(two_blocks < kTwoBlocks * kMost);
  CHECK(half < kTwoBlocks / 4 * kMost);
  CHECK(of_pool < kTwoBlocks / 4 * kMost);
  CHECK(in_class < kTwoBlocks / 4);
  CHECK(plain < kTwoBlocks / 4);
}

TEST_CASE("an invalid table of times is refused with its line") {
  const auto [line, message] = GENERATE(table<std::string, std::string>(
      {{"12 *gemm*",
        "line 2: '12 *gemm*' is not a cost; a line is a time and a pattern: 12.5us *gemm*"},
       {"-1us *gemm*", "line 2: '-1us *gemm*' is not a cost"},
       {"fast *gemm*", "line 2: 'fast *gemm*' is not a cost"},
       {"1us", "line 2: '1us' is not a cost"}}));
  const std::string file = costs_file("1us *copy*\n" + line + "\n");
  const Ran ran = run("print_error_of_first_call", "MILLRACE_VIRTUAL_COSTS=" + file);
  std::filesystem::remove(file);
  CHECK(ran.output == "cudaErrorInitializationError\n");
  CHECK_THAT(ran.errors, ContainsSubstring("MILLRACE_VIRTUAL_COSTS: " + file + ", " + message));
  const Ran absent = run("print_error_of_first_call", "MILLRACE_VIRTUAL_COSTS=/nowhere/costs");
  CHECK_THAT(absent.errors, ContainsSubstring("/nowhere/costs cannot be read"));
}

TEST_CASE("the report has memory, pools and calls of a program") {
  const Ran ran = run("use_a_pool", "MILLRACE_VIRTUAL=h100,gpus=2 MILLRACE_VIRTUAL_REPORT=-");
  CHECK(ran.code == 0);
  CHECK_THAT(ran.errors, ContainsSubstring("schedule h100, 2 GPUs of profile h100"));
  CHECK_THAT(ran.errors, ContainsSubstring("virtual time 0.0000"));
  CHECK_THAT(ran.errors, ContainsSubstring("peak memory 32.0 MiB, in use at exit 0.0 MiB"));
  CHECK_THAT(ran.errors,
             ContainsSubstring("default pool: peak reserved 32.0 MiB, peak used 3.0 MiB"));
  CHECK_THAT(ran.errors, ContainsSubstring("of GPU 0: 1 operations, peak pool memory 3.0 MiB"));
  CHECK_THAT(ran.errors, ContainsSubstring("4 calls of 4 functions"));
  CHECK_THAT(ran.errors, ContainsSubstring("1 cudaFreeAsync"));
}
