// The advice that ends the first screens of pipelines, stream bench and replay.

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "cli/advice_lines.hpp"
#include "pipelines/advice.hpp"
#include "stream/bench_results.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"
#include "test/tools/program.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A row of pipelines with this reserved memory and this runtime of the loop.
cli::PipelineRow row_of(const std::string& allocator, std::size_t reserved, double runtime) {
  cli::PipelineRow row;
  row.cell.allocator = allocator;
  row.cell.options.copy = CopyMethod::side_stream;
  row.example.memory.reserved.peak = reserved;
  row.example.ladder.requested = reserved / 2;
  row.runtime_p50 = runtime;
  return row;
}

/// Ways of capture with these stalls in a step of 5 ms.
cli::BenchSize bench_of(const std::vector<std::pair<std::string, Nanoseconds>>& ways) {
  cli::BenchSize size;
  size.rows = 1000;
  size.without.step = 5ms;
  for (const auto& [way, stall] : ways) {
    cli::BenchRow row{.rows = 1000, .way = way, .run = {}, .stall = stall};
    row.run.step = size.without.step + stall;
    row.run.counts.captures = 1;
    row.run.lag_p50 = 500us;
    row.run.device_bytes = MiB * (size.ways.size() + 1);
    size.ways.push_back(row);
  }
  return size;
}

}  // namespace

TEST_CASE("the advice of pipelines shows no saving that rounds to 0") {
  const auto text = [](std::size_t reserved) {
    return cli::render_advice({row_of("torch", 10 * GiB, 40e6), row_of("millrace", reserved, 38e6)},
                              cli::Painter{false});
  };
  CHECK_THAT(text(10 * GiB - 2 * MiB),
             ContainsSubstring("millrace, side-stream reserves about as much, loop −5.0%."));
  CHECK_THAT(text(10 * GiB + 2 * MiB), ContainsSubstring("reserves about as much, loop −5.0%."));
  CHECK_THAT(text(10 * GiB), ContainsSubstring("reserves as much, loop −5.0%."));
  CHECK_THAT(text(9 * GiB), ContainsSubstring("saves 1.00 GiB (10%), loop −5.0%."));
}

TEST_CASE("a capture mode that makes steps longer is not shown as a gain") {
  const cli::Painter plain{false}, colors{true};
  const cli::BenchSize slow = bench_of({{"sync", 5220us}, {"mapped", 6ms}});
  CHECK_THAT(cli::bench_advice(slow, plain),
             ContainsSubstring("\nLeast added time and memory: sync, step +104.4%, rows after 0.50 "
                               "ms, 1.00 MiB of memory.\n"));
  const auto line = [](std::string text, cli::Look look) { return cli::Painter{true}(text, look); };
  CHECK_THAT(cli::bench_advice(slow, colors),
             ContainsSubstring(line("sync, step +104.4%, rows after 0.50 ms, 1.00 MiB of memory.",
                                    cli::Look::bad)));
  const cli::BenchSize fast = bench_of({{"ring", 12600ns}});
  CHECK_THAT(cli::bench_advice(fast, colors),
             ContainsSubstring(line("ring, step +0.3%, rows after 0.50 ms, 1.00 MiB of memory.",
                                    cli::Look::good)));
}

TEST_CASE("a stall that the table shows is in the advice") {
  const auto text = [](Nanoseconds stall) {
    return cli::bench_advice(bench_of({{"ring", stall}}), cli::Painter{false});
  };
  CHECK_THAT(text(2400ns), ContainsSubstring("ring, step +2.4 us, "));
  CHECK_THAT(text(-2400ns), ContainsSubstring("ring, step −2.4 us, "));
  CHECK_THAT(text(40ns), ContainsSubstring("ring, same step, "));
  CHECK_THAT(text(0ns), ContainsSubstring("ring, same step, "));
}

TEST_CASE("the advice of replay has the table's unit and promises nothing from its bound") {
  const ScratchFolder scratch;
  const std::string trace =
      scratch
          .write("trace.csv",
                 "id,lower,upper,size\n0,0,9,2000000000\n1,1,3,900000000\n2,2,9,900000000\n"
                 "3,4,9,1100000000\n")
          .string();
  const ProgramRun run = run_program({"replay", trace});
  CHECK_THAT(run.out, ContainsSubstring("MiB of live data.") &&
                          ContainsSubstring("Bound: without regard to streams, the best layout"));
  std::string words = run.out;  // lines may break at any space
  std::ranges::replace(words, '\n', ' ');
  CHECK(words.find("may not") != std::string::npos);
  CHECK(run.out.find("GiB") == std::string::npos);
  CHECK(run.out.find("Any allocator") == std::string::npos);
}
