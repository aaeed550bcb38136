#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "footprint/advice.hpp"
#include "footprint/changes.hpp"
#include "footprint/json.hpp"
#include "footprint/table.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"
#include "test/tools/program.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

namespace {

const std::vector<std::string> kSmallComparison{
    "footprint", "--workload", "sparse_data_dist_base", "--seeds", "3",
    "--steps",   "8",          "--batch-bytes",         "64MiB"};

ProgramRun small_comparison(const std::vector<std::string>& more) {
  return run_program(joined(kSmallComparison, more));
}
Json comparison_document(const std::vector<std::string>& more) {
  return document_of(joined(kSmallComparison, more));
}

/// A row with one peak of reserved memory per seed, and with steps of this length.
cli::FootprintRow row_of(const std::string& allocator, CopyMethod method,
                         const std::vector<std::size_t>& reserved, double step) {
  cli::FootprintRow row;
  row.allocator = allocator;
  row.method = method;
  for (const std::size_t bytes : reserved) {
    cli::FootprintFigures figures;
    figures.reserved = figures.packed = figures.ordered = figures.rounded = bytes;
    figures.requested = figures.active = figures.allocated = bytes;
    figures.step_p50 = figures.step_p90 = step;
    figures.step_mean = 2 * step;  // not in the table, so it must not decide
    figures.hidden = 1;
    row.by_seed.push_back(figures);
  }
  row.figures = row.by_seed[(reserved.size() - 1) / 2];
  return row;
}

std::string advice_of(std::vector<cli::FootprintRow> rows) {
  cli::FootprintTable table;
  table.workload = experiment::Workload::named("train_pipeline_base");
  table.rows = std::move(rows);
  return cli::render_advice(table, cli::Painter{false});
}

}  // namespace

TEST_CASE("a saving is the median of the savings per seed, with its range") {
  const Json json = comparison_document({"--allocator", "torch,millrace", "--copy", "all"});
  const Json& usual = json.at("runs").at(0);
  REQUIRE(usual.at("strategy") == "side-stream");
  CHECK_FALSE(usual.at("spread").contains("saving_bytes"));
  for (const Json& run : json.at("runs")) {
    INFO(run.at("allocator") << ' ' << run.at("strategy"));
    const Json& spread = run.at("spread");
    const Json& reserved = spread.at("peak_reserved_bytes");
    CHECK(reserved.at("median") == run.at("peak_reserved_bytes"));
    CHECK(reserved.at("least") <= reserved.at("p25"));
    CHECK(reserved.at("p25") <= reserved.at("median"));
    CHECK(reserved.at("median") <= reserved.at("p75"));
    CHECK(reserved.at("p75") <= reserved.at("most"));
    if (&run == &usual) continue;
    CHECK(spread.at("beside") == Json{{"allocator", "torch"}, {"strategy", "side-stream"}});
    std::vector<double> savings;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto bytes = [&](const Json& of) {
        return of.at("seeds").at(i).at("peak_reserved_bytes").get<double>();
      };
      savings.push_back(bytes(usual) - bytes(run));
    }
    std::ranges::sort(savings);
    CHECK(spread.at("saving_bytes").at("least") == savings[0]);
    CHECK(spread.at("saving_bytes").at("median") == savings[1]);
    CHECK(spread.at("saving_bytes").at("most") == savings[2]);
  }
}

TEST_CASE("the table shows the median and range over the seeds, and one seed has no range") {
  const ProgramRun three = small_comparison({"--allocator", "torch"});
  CHECK_THAT(three.out, ContainsSubstring("range") && ContainsSubstring("saved") &&
                            ContainsSubstring("(seeds 1 to 3)"));
  const ProgramRun one = small_comparison({"--allocator", "torch", "--seeds", "1"});
  CHECK_THAT(one.out, ContainsSubstring("saved") && ContainsSubstring("seed 1"));
  CHECK(one.out.find("range") == std::string::npos);
  CHECK(one.out.find("over the seeds") == std::string::npos);
}

TEST_CASE("the default table has few columns, and --wide has the ladder") {
  const ProgramRun few = small_comparison({"--allocator", "torch"});
  const ProgramRun all = small_comparison({"--allocator", "torch", "--wide"});
  // In 80 characters the second group of columns is a separate table.
  for (const char* const columns : {"round streams packing policy", "strand frag util calls"}) {
    CHECK(few.out.find(columns) == std::string::npos);
    CHECK_THAT(all.out, ContainsSubstring(columns));
  }
}

TEST_CASE("advice and table have the same step time, and words that match the sign") {
  const auto text = [](double step) {
    return advice_of({row_of("torch", CopyMethod::side_stream, {10 * GiB}, 40e6),
                      row_of("millrace", CopyMethod::side_stream, {8 * GiB}, step)});
  };
  CHECK_THAT(text(40.08e6), ContainsSubstring("step P50 40.08 ms instead of 40.00: 0.2% longer"));
  CHECK_THAT(text(39.2e6), ContainsSubstring("39.20 ms instead of 40.00: 2.0% shorter"));
  CHECK_THAT(text(40.001e6), ContainsSubstring("40.00 ms instead of 40.00: as long"));
  for (const double step : {39.2e6, 40.08e6, 44e6}) {
    CHECK(text(step).find("no time") == std::string::npos);
  }
  CHECK_THAT(text(40.08e6), ContainsSubstring("Saves 2.00 GiB of 10.00 (20%)"));
}

TEST_CASE("the advice on the first screen has the signs of saving and step, on two lines") {
  const auto text = [](std::size_t reserved, double step) {
    cli::FootprintTable table;
    table.workload = experiment::Workload::named("pr2916");
    table.rows = {row_of("torch", CopyMethod::side_stream, {10 * GiB}, 40e6),
                  row_of("millrace", CopyMethod::side_stream, {reserved}, step)};
    return cli::render_first_advice(table, cli::Painter{false});
  };
  CHECK_THAT(text(8 * GiB, 40.08e6),
             ContainsSubstring("\nAnother allocator: millrace, side-stream saves 2.00 GiB (20%), "
                               "step +0.2%.\n"));
  CHECK_THAT(text(8 * GiB, 40.001e6), ContainsSubstring("(20%), same step.\n"));
  CHECK_THAT(text(11 * GiB, 39.2e6), ContainsSubstring("takes 1.00 GiB (10%), step −2.0%."));
  CHECK(std::ranges::count(text(8 * GiB, 40e6), '\n') == 2);
}

TEST_CASE("the step time of the table decides whether a change costs time") {
  auto from = row_of("torch", CopyMethod::side_stream, {10 * GiB}, 40e6);
  auto to = row_of("millrace", CopyMethod::side_stream, {8 * GiB}, 40e6);
  to.figures.step_mean = 100 * from.figures.step_mean;
  CHECK(cli::costs_no_time(from.figures, to.figures));
  to.figures.step_p50 = 1.02 * from.figures.step_p50;
  CHECK_FALSE(cli::costs_no_time(from.figures, to.figures));
}

TEST_CASE("advice uses the median of the savings per seed") {
  // One draw has 2 GiB less, two have 1 GiB more.
  const auto text =
      advice_of({row_of("torch", CopyMethod::side_stream, {10 * GiB, 11 * GiB, 12 * GiB}, 40e6),
                 row_of("millrace", CopyMethod::side_stream, {8 * GiB, 12 * GiB, 13 * GiB}, 40e6)});
  CHECK_THAT(text, ContainsSubstring("Takes 1.00 GiB more") &&
                       ContainsSubstring("−1.00 to 2.00 over the seeds"));
}

TEST_CASE("values that the driver's pool does not report are unknown, and never 0") {
  const std::vector<std::string> rows{"--allocator", "torch,driver", "--copy",
                                      "side-stream,driver-async", "--wide"};
  const ProgramRun table = small_comparison(rows);
  REQUIRE(table.exit_code == 0);
  CHECK(table.out.find("→ 0.00") == std::string::npos);
  CHECK_THAT(table.out, ContainsSubstring("are unknown"));
  for (const Json& run : comparison_document(rows).at("runs")) {
    INFO(run.at("allocator") << ' ' << run.at("strategy"));
    const bool pool = run.at("allocator") == "driver" || run.at("strategy") == "driver-async";
    CHECK(run.at("stranded_peak_bytes").is_null() == pool);
    CHECK(run.at("external_fragmentation").is_null() == pool);
    CHECK(run.at("shares").at("idle_at_peak").is_null() == pool);
  }
}

TEST_CASE("published figures are shown only for their own workload") {
  const ScratchFolder folder;
  const auto says = [](const ProgramRun& run) {
    REQUIRE(run.exit_code == 0);
    return run.out.find("3510") != std::string::npos;
  };
  const std::vector<std::string> quick{"--wide",  "--seeds", "1",
                                       "--steps", "5",       "--allocator",
                                       "torch",   "--copy",  "side-stream,in-place"};
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), "footprint");
    more.insert(more.end(), quick.begin(), quick.end());
    return run_program(more);
  };
  CHECK(says(run({"--workload", "sparse_data_dist_base"})));
  CHECK(says(run({"--workload", "sparse_data_dist_base", "--run-ahead", "512"})));
  CHECK_FALSE(says(run({"--workload", "sparse_data_dist_base", "--batch-bytes", "64MiB"})));
  CHECK_FALSE(says(run({"--workload", "heavy_dense"})));
  // A user's own workload, even with the name of a built-in one.
  const auto file = folder.write("sparse_data_dist_base.json", R"({"schema": "millrace.workload/1",
      "batch_size": 1000, "num_unweighted_features": 4, "feature_pooling_avg": 20,
      "activations": "64MiB", "num_batches": 6})");
  CHECK_FALSE(says(run({"--workload", file.string()})));
  const ProgramRun json = run({"--workload", file.string(), "--format", "json"});
  CHECK(Json::parse(json.out).at("published").is_null());
}

TEST_CASE("footprint ends with 5 if every run is out of memory") {
  const std::vector<std::string> none{"--device", "virtual:a100", "--activations", "90GiB"};
  const ProgramRun table = small_comparison(none);
  CHECK(table.exit_code == 5);
  CHECK_THAT(table.out, ContainsSubstring("out of memory"));
  std::vector<std::string> as_json = none;
  as_json.insert(as_json.end(), {"--format", "json"});
  const ProgramRun json = small_comparison(as_json);
  CHECK(json.exit_code == 5);
  for (const Json& run : Json::parse(json.out).at("runs")) CHECK(run.contains("error"));
}

TEST_CASE("the dense features of a sample may be as many as in an image") {
  const experiment::Workload images = experiment::Workload::parse(
      R"({"schema": "millrace.workload/1", "batch_size": 256, "num_float_features": 150528,
          "activations": "1GiB"})",
      "images.json");
  CHECK(images.mean_batch_bytes() == 256 * (150528 + 1) * sizeof(float));
}
