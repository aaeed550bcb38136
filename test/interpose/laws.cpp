#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>

#include "test/interpose/run.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"
#include "test/support/sizes.hpp"

using millrace::test::Ran;
using millrace::test::run;
using millrace::test::run_alone;

namespace {

using millrace::test::MiB;

std::string every_schedule() {
  return GENERATE("instant", "lag:1", "adversarial:1", "adversarial:2", "h200");
}

/// The figures of the only GPU that was used.
const nlohmann::json& gpu(const Ran& ran) {
  REQUIRE(ran.report.at("gpus").size() == 1);
  return ran.report.at("gpus").at(0);
}

std::size_t calls(const Ran& ran, const std::string& name, const std::string& which = "made") {
  for (const auto& call : ran.report.at("calls")) {
    if (call.at("name") == name) return call.at(which);
  }
  return 0;
}

std::size_t reserved(const Ran& ran) { return gpu(ran).at("bytes").at("reserved").at("peak"); }

/// The number of random programs: MILLRACE_PROGRAMS, or 4. Their seeds begin at MILLRACE_SEED.
std::uint64_t programs() {
  const char* const given = std::getenv("MILLRACE_PROGRAMS");
  return given == nullptr ? 4 : std::strtoull(given, nullptr, 10);
}

}  // namespace

TEST_CASE("a program on Millrace's allocator reads what it wrote under every schedule") {
  const std::string schedule =
      GENERATE("instant", "lag:1", "lag:5", "lag:64", "adversarial:1", "adversarial:2",
               "adversarial:3", "adversarial:4", "adversarial:5", "h200");
  for (const char* const seed : {"1", "2"}) {
    CAPTURE(schedule, seed);
    const Ran ran = run(std::string{"data "} + seed, schedule);
    CAPTURE(ran.errors);
    CHECK(ran.code == 0);
    CHECK(calls(ran, "cudaMallocAsync") > 0);
    CHECK(calls(ran, "cudaMallocAsync", "passed") == 0);
    CHECK(calls(ran, "cudaMalloc", "passed") == 0);
  }
}

TEST_CASE("a program ends on Millrace's allocator with the same exit code as alone") {
  const std::string schedule =
      GENERATE("instant", "lag:5", "adversarial:1", "adversarial:4", "h200");
  const std::string name =
      GENERATE("fork_after_first_call", "fork_before_first_call", "exit_in_a_host_function",
               "free_in_a_late_destructor", "free_in_an_early_destructor", "foreign_pointers",
               "last_error_stays", "too_much", "streams_in_a_loop", "threads_that_end",
               "opened_by_hand", "own_pool", "no_calls", "everywhere", "reused_after_an_event",
               "event_recorded_by_the_driver", "captured", "free_in_a_capture");
  CAPTURE(schedule, name);
  const Ran ran = run(name, schedule);
  CAPTURE(ran.errors);
  CHECK(ran.code == (name == "exit_in_a_host_function" ? 3 : 0));
  if (schedule == "instant") CHECK(run_alone(name, schedule).code == ran.code);
}

TEST_CASE("calls that the runtime serves get memory that Millrace has cached") {
  const std::string schedule = GENERATE("instant", "lag:5", "adversarial:1", "h200");
  CAPTURE(schedule);
  const Ran ran = run("needs_what_is_kept_free", schedule);
  CAPTURE(ran.errors);
  CHECK(ran.code == 0);
  CHECK(run_alone("needs_what_is_kept_free", schedule).code == 0);
  CHECK(calls(ran, "cudaMallocPitch", "passed") == 1);
  CHECK(calls(ran, "cudaMallocPitch", "refused") == 1);
}

TEST_CASE("the report of a program with PyTorch says that PyTorch divides its memory itself") {
  const Ran without = run("counted_by_hand", "instant");
  CHECK(without.report.at("pytorch").is_null());
  const Ran with = run("beside_pytorch", "instant");
  REQUIRE(with.code == 0);
  CHECK_THAT(with.report.at("pytorch").get<std::string>(),
             Catch::Matchers::ContainsSubstring("MILLRACE_TORCH=1"));
  const Ran on = run("beside_pytorch", "instant", "MILLRACE_TORCH=1");
  CHECK_THAT(on.report.at("pytorch").get<std::string>(),
             Catch::Matchers::ContainsSubstring("torch.cuda.memory_stats()"));
}

TEST_CASE("the report has the memory that a device reset freed") {
  const std::string schedule = every_schedule();
  const std::string what_if = GENERATE("", "MILLRACE_RUN_WHAT_IF=1");
  CAPTURE(schedule, what_if);
  const Ran ran = run("reset_twice", schedule, what_if);
  CAPTURE(ran.errors);
  REQUIRE(ran.code == 0);
  const nlohmann::json& gpus = ran.report.at("gpus");
  REQUIRE(gpus.size() == 2);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    CHECK(gpus.at(i).at("gpu") == 0);
    CHECK(gpus.at(i).at("was_reset") == true);
    CHECK(gpus.at(i).at("bytes").at("requested").at("peak") == (i == 0 ? 6 : 3) * MiB);
    CHECK(gpus.at(i).at("counts").at("allocations") == 1);
  }
}

TEST_CASE("threads that allocate and free concurrently read what they wrote") {
  const std::string schedule = GENERATE("instant", "adversarial:1", "adversarial:2", "h200");
  const std::string what_if = GENERATE("", "MILLRACE_RUN_WHAT_IF=1");
  CAPTURE(schedule, what_if);
  const Ran ran = run("data_in_threads", schedule, what_if);
  CAPTURE(ran.errors);
  CHECK(ran.code == 0);
  CHECK(gpu(ran).at("bytes").at("requested").at("current") == 0);
}

TEST_CASE("streams that are created and destroyed in a loop reuse memory") {
  const std::string schedule = every_schedule();
  CAPTURE(schedule);
  const Ran ran = run("streams_in_a_loop", schedule);
  CHECK(gpu(ran).at("counts").at("allocations") == 200);
  CHECK(reserved(ran) <= 2 * 8 * MiB);
}

TEST_CASE("memory of one stream serves another after an event and a wait of the program") {
  // Under the adversarial schedule no free completes until a call waits for it.
  const std::string schedule = GENERATE("adversarial:1", "adversarial:2", "adversarial:3");
  CAPTURE(schedule);
  const Ran ran = run("reused_after_an_event", schedule);
  CHECK(ran.code == 0);
  CHECK(reserved(ran) == 8 * MiB);
  CHECK(gpu(ran).at("counts").at("served_ordered") == 19);
}

TEST_CASE("functions that are looked up by handle are also intercepted") {
  const Ran ran = run("opened_by_hand", "instant");
  CHECK(ran.code == 0);
  CHECK(calls(ran, "cudaMalloc") == 3);
  CHECK(gpu(ran).at("counts").at("allocations") == 3);
}

TEST_CASE("calls for pools with a size and for foreign addresses are passed on") {
  const Ran pools = run("own_pool", "adversarial:1");
  CHECK(calls(pools, "cudaMallocFromPoolAsync") == 2);
  CHECK(calls(pools, "cudaMallocFromPoolAsync", "passed") == 1);
  const Ran foreign = run("foreign_pointers", "adversarial:1");
  CHECK(gpu(foreign).at("counts").at("frees") == 1);
}

TEST_CASE("the model of the program's own calls separates memory of unordered streams") {
  // One stream per step, with a synchronization: a single segment of 32 MiB is enough.
  const Ran ordered = run("streams_in_a_loop", "instant");
  CHECK(gpu(ordered).at("own_calls").at("most_bytes") == 32 * MiB);
  // Four streams at once, none of which waits for another: 4 x 24 MiB, in segments of 32 MiB.
  const Ran apart = run("streams_side_by_side", "instant");
  CHECK(gpu(apart).at("own_calls").at("least_bytes") == 32 * MiB);
  CHECK(gpu(apart).at("own_calls").at("most_bytes") == 4 * 32 * MiB);
}

TEST_CASE("allocations and frees in a captured graph are passed on to the runtime") {
  const Ran ran = run("captured", "adversarial:2");
  CHECK(calls(ran, "cudaMallocAsync") == 2);
  CHECK(calls(ran, "cudaMallocAsync", "passed") == 1);
  CHECK(calls(ran, "cudaFreeAsync", "passed") == 1);
}

TEST_CASE("memory that is freed during a capture serves later requests") {
  const std::string schedule = every_schedule();
  CAPTURE(schedule);
  const Ran ran = run("free_in_a_capture", schedule);
  CHECK(ran.code == 0);
  CHECK(reserved(ran) <= 3 * 2 * MiB);
}

TEST_CASE("the report agrees with a count by hand") {
  const Ran ran = run("counted_by_hand", "adversarial:1");
  const auto& bytes = gpu(ran).at("bytes");
  // 3 x 6 MiB one after another, then 3 MiB of cudaMalloc and 4 MiB on the stream.
  CHECK(bytes.at("requested").at("peak") == 7 * MiB);
  CHECK(bytes.at("requested").at("current") == 7 * MiB);
  // The stream reuses the 6 MiB at once, and its last request takes 4 MiB of them. Memory of
  // cudaMalloc may serve every stream, so it is new, in whole pages of 2 MiB.
  CHECK(bytes.at("reserved").at("peak") == 10 * MiB);
  // The driver's pool has segments of 32 MiB, and cudaMalloc pages of 2 MiB.
  CHECK(gpu(ran).at("own_calls").at("least_bytes") == (32 + 4) * MiB);
  CHECK(gpu(ran).at("own_calls").at("most_bytes") == (32 + 4) * MiB);
  CHECK(gpu(ran).at("stranded_bytes") == 0);
  CHECK(gpu(ran).at("counts").at("allocations") == 5);
  CHECK(gpu(ran).at("counts").at("frees") == 3);
  CHECK(calls(ran, "cudaMallocAsync") == 4);
  CHECK(calls(ran, "cudaFreeAsync") == 3);
  CHECK(calls(ran, "cudaMalloc") == 1);
}

TEST_CASE("the model of the program's own calls counts pages and memory kept by the pool") {
  // 682 blocks of 3,072 bytes fit into a page of 2 MiB: 1,000 take two. 3 MiB take two pages.
  constexpr std::size_t kMalloc = (2 * 2 + 4) * MiB;
  // 40 MiB take two segments of 32 MiB, which stay. Then 100 MiB.
  const Ran keeps = run("pool_that_keeps", "instant");
  REQUIRE(keeps.code == 0);
  CHECK(gpu(keeps).at("own_calls").at("least_bytes") == kMalloc + (64 + 100) * MiB);
  CHECK(gpu(keeps).at("own_calls").at("most_bytes") == kMalloc + (64 + 100) * MiB);
  const Ran trimmed = run("pool_that_is_trimmed", "instant");
  REQUIRE(trimmed.code == 0);
  CHECK(gpu(trimmed).at("own_calls").at("least_bytes") == kMalloc + 100 * MiB);
  CHECK(gpu(trimmed).at("own_calls").at("most_bytes") == kMalloc + 100 * MiB);
}

TEST_CASE("the report counts requests that ran out of memory") {
  for (const char* const allocator : {"", "MILLRACE_RUN_WHAT_IF=1"}) {
    CAPTURE(allocator);
    const Ran ran = run("too_much", "instant", allocator);
    CHECK(ran.code == 0);
    CHECK(gpu(ran).at("out_of_memory").at("requests") == 2);
    CHECK(gpu(ran).at("out_of_memory").at("largest_bytes") == std::size_t{1} << 45);
    CHECK(calls(ran, "cudaMalloc", "refused") == 1);
    CHECK(calls(ran, "cudaMallocAsync", "refused") == 1);
    CHECK(calls(ran, "cudaMallocAsync", "passed") == 0);
  }
}

TEST_CASE("each process of a job has its own report") {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::temp_directory_path() / ("millrace-interpose-job-" + std::to_string(getpid()));
  fs::create_directory(folder);
  const Ran ran = run("fork_before_first_call", "instant",
                      "MILLRACE_RUN_REPORT='" + (folder / "%p.json").string() + "'");
  CHECK(ran.code == 0);
  CHECK(std::distance(fs::directory_iterator{folder}, fs::directory_iterator{}) == 2);
  fs::remove_all(folder);
}

TEST_CASE("a program that ends by exit, abort or signal has its report and its own exit code") {
  struct Ending {
    const char *name, *ended_by;
    int code;
  };
  for (const Ending& each :
       {Ending{"ends_by_exit_now", "_exit", 7}, Ending{"ends_by_std_exit_now", "_exit", 7},
        Ending{"ends_by_quick_exit", "quick_exit", 7}, Ending{"ends_by_abort", "SIGABRT", 134},
        Ending{"ends_by_signal", "SIGTERM", 143}, Ending{"ends_by_fault", "SIGSEGV", 139},
        Ending{"handles_its_signal", "_exit", 6}}) {
    CAPTURE(each.name);
    const Ran ran = run(each.name, "instant");
    CAPTURE(ran.errors);
    CHECK(ran.code == each.code);
    REQUIRE(!ran.report.is_null());
    CHECK(ran.report.at("ended_by") == each.ended_by);
    CHECK(gpu(ran).at("bytes").at("requested").at("peak") == 6 * MiB);
    CHECK(run_alone(each.name, "instant").code == each.code);
  }
}

TEST_CASE("a child that ends by _exit leaves the report to its parent") {
  const Ran ran = run("children_that_exit_now", "instant");
  CAPTURE(ran.errors);
  CHECK(ran.code == 0);
  CHECK(ran.report.at("ended_by").is_null());
  CHECK(gpu(ran).at("bytes").at("requested").at("peak") == 10 * MiB);
}

TEST_CASE("a program without CUDA calls gets no report") {
  const Ran ran = run("no_calls", "instant");
  CHECK(ran.code == 0);
  CHECK(ran.report.is_null());
  CHECK(ran.errors.empty());
}

TEST_CASE("MILLRACE_RUN_LEAVE leaves cudaMalloc to the runtime") {
  const Ran ran = run("counted_by_hand", "instant", "MILLRACE_RUN_LEAVE=cudaMalloc");
  CHECK(ran.code == 0);
  CHECK(calls(ran, "cudaMalloc", "passed") == 1);
  CHECK(gpu(ran).at("bytes").at("requested").at("peak") == 6 * MiB);
}

TEST_CASE("what-if reports the bytes that Millrace reserves in a real run") {
  // Without `lag`, which counts calls: Millrace's own calls differ between the two runs.
  const std::string schedule = GENERATE("instant", "adversarial:1", "adversarial:3", "h200");
  const std::string words =
      GENERATE("data 1", "data 2", "streams_in_a_loop", "reused_after_an_event", "everywhere",
               "counted_by_hand", "free_in_a_capture", "streams_side_by_side");
  CAPTURE(schedule, words);
  const Ran what_if = run(words, schedule, "MILLRACE_RUN_WHAT_IF=1");
  const Ran ran = run(words, schedule);
  CAPTURE(what_if.errors);
  REQUIRE(what_if.code == 0);
  REQUIRE(ran.code == 0);
  CHECK(what_if.report.at("allocator") == "own");
  CHECK(calls(what_if, "cudaMallocAsync", "passed") == calls(what_if, "cudaMallocAsync"));
  CHECK(gpu(what_if).at("bytes").at("requested") == gpu(ran).at("bytes").at("requested"));
  const double predicted = static_cast<double>(reserved(what_if));
  const double measured = static_cast<double>(reserved(ran));
  // With a profile, calls that take a different host time change what has completed.
  CHECK(std::abs(predicted - measured) <= 0.01 * measured);
}

TEST_CASE("what-if reports a range that contains the bytes reserved by random programs") {
  const std::uint64_t first = millrace::test::seed();
  const std::string schedule =
      GENERATE("instant", "lag:5", "adversarial:1", "adversarial:2", "h200");
  for (std::uint64_t each = first; each < first + programs(); ++each) {
    const std::string words = "mixed " + std::to_string(each);
    CAPTURE(schedule, words);
    const Ran what_if = run(words, schedule, "MILLRACE_RUN_WHAT_IF=1");
    const Ran ran = run(words, schedule);
    CAPTURE(what_if.errors, ran.errors);
    REQUIRE(what_if.code == 0);
    REQUIRE(ran.code == 0);
    const auto& range = gpu(what_if).at("run");
    const double measured = static_cast<double>(reserved(ran));
    CHECK(range.at("least_bytes").get<double>() <= 1.01 * measured);
    CHECK(range.at("most_bytes").get<double>() >= 0.99 * measured);
    CHECK(range.at("least_bytes").get<std::size_t>() <= reserved(what_if));
    CHECK(range.at("most_bytes").get<std::size_t>() >= reserved(what_if));
    CHECK(gpu(what_if).at("what_if").at("run") == range);
  }
}

TEST_CASE("what-if reports one figure if the program's calls determine it") {
  for (const char* const words : {"reused_after_an_event", "everywhere"}) {
    CAPTURE(words);
    const auto range = gpu(run(words, "h200", "MILLRACE_RUN_WHAT_IF=1")).at("run");
    CHECK(range.at("least_bytes") == range.at("most_bytes"));
    CHECK(range.at("most_bytes") == reserved(run(words, "h200")));
  }
}

TEST_CASE("what-if reports two figures if the time of the GPU decides") {
  // Four streams of 24 MiB without any order: reused one after the other if each completes in time.
  const auto range = gpu(run("streams_side_by_side", "h200", "MILLRACE_RUN_WHAT_IF=1")).at("run");
  CHECK(range.at("least_bytes") == reserved(run("streams_side_by_side", "instant")));
  CHECK(range.at("most_bytes") == 4 * 24 * MiB);
}

TEST_CASE("what-if does not use memory that the program's other calls hold") {
  const Ran what_if = run("beside_pitched_memory", "adversarial:1", "MILLRACE_RUN_WHAT_IF=1");
  const Ran ran = run("beside_pitched_memory", "adversarial:1");
  REQUIRE(what_if.code == 0);
  REQUIRE(ran.code == 0);
  CHECK(reserved(what_if) == 900 * MiB);
  CHECK(reserved(ran) == 900 * MiB);
  CHECK(gpu(what_if).at("run").at("most_bytes") == 900 * MiB);
}

TEST_CASE("what-if reports the number of threads that allocate") {
  const Ran one = run("counted_by_hand", "instant", "MILLRACE_RUN_WHAT_IF=1");
  CHECK(one.report.at("allocating_threads") == 1);
  const Ran four = run("data_in_threads", "instant", "MILLRACE_RUN_WHAT_IF=1");
  CHECK(four.report.at("allocating_threads") == 4);
}

TEST_CASE("with what-if a program ends with the same exit code as alone") {
  const std::string schedule = GENERATE("instant", "adversarial:1");
  const std::string name =
      GENERATE("fork_after_first_call", "exit_in_a_host_function", "free_in_a_late_destructor",
               "foreign_pointers", "last_error_stays", "too_much", "threads_that_end",
               "opened_by_hand", "own_pool", "captured");
  CAPTURE(schedule, name);
  const Ran ran = run(name, schedule, "MILLRACE_RUN_WHAT_IF=1");
  CAPTURE(ran.errors);
  CHECK(ran.code == (name == "exit_in_a_host_function" ? 3 : 0));
}

TEST_CASE("what-if reports the bytes that the program's own allocators reserved") {
  const Ran ran = run("counted_by_hand", "instant", "MILLRACE_RUN_WHAT_IF=1");
  // 6 MiB on the stream are reused for 4 MiB. The virtual runtime's pool grows by 32 MiB. And 3
  // MiB.
  CHECK(gpu(ran).at("own_peak_bytes") == (32 + 3) * MiB);
}
