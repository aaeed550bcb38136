#include "stream/bench.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <vector>

#include "cli/error.hpp"
#include "cli/figures.hpp"
#include "cli/output.hpp"
#include "cli/text.hpp"
#include "cli/values.hpp"
#include "millrace/device/profile.hpp"
#include "millrace/pipeline/data/byte_size.hpp"
#include "millrace/pipeline/schedule/footprint.hpp"
#include "millrace/streamer/capture_comparison.hpp"
#include "stream/bench_results.hpp"

namespace millrace::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostRows = 100'000'000;

struct BenchArguments {
  std::string device = "virtual:h200", allocator = "millrace", capture = "all";
  std::vector<std::string> rows;
  std::string width = "64", tables = "4", table_rows = "4000000", compute = "5", steps = "32",
              run_ahead = "4", slots = "8";
  std::optional<std::string> slot_bytes, json;
};

/** A way of capture, as the table names it. */
struct Way {
  std::string name;
  CaptureOptions options;
};

std::vector<std::string> way_names() {
  std::vector<std::string> names;
  for (const CaptureWay way : kCaptureWays) names.emplace_back(millrace::to_string(way));
  names.emplace_back("ring-own-stream");
  return names;
}

Way way_of(const std::string& name) {
  if (name != "ring-own-stream") return {name, {.way = parse_capture_way(name)}};
  return {name, {.way = CaptureWay::ring, .gather_on = GatherOn::own_stream}};
}

struct BenchOptions {
  CaptureWorkload workload;
  std::vector<std::size_t> rows;
  std::vector<Way> ways;
  std::size_t slots = 8;
  std::optional<std::size_t> slot_bytes;
};

BenchOptions read_options(const BenchArguments& given) {
  BenchOptions options;
  CaptureWorkload& workload = options.workload;
  try {
    workload.device = footprint_device(given.device).name;
  } catch (const std::exception& error) {
    throw UsageError{
        error.what(), "--device",
        fmt::format("virtual:{}, cuda:N", fmt::join(DeviceProfile::names(), ", virtual:"))};
  }
  workload.allocator = read_name("--allocator", "allocator", given.allocator,
                                 {kAllocatorNames.begin(), kAllocatorNames.end()});
  workload.width = read_whole("--width", given.width, 1, 65'536);
  workload.tables = read_whole("--tables", given.tables, 1, 4'096);
  workload.table_rows = read_whole("--table-rows", given.table_rows, 1, 10'000'000'000);
  workload.steps = static_cast<unsigned>(read_whole("--steps", given.steps, 1, 100'000));
  workload.run_ahead = static_cast<unsigned>(read_whole("--run-ahead", given.run_ahead, 1, 256));
  const double compute = read_number("--compute", given.compute, 0, 60'000);
  workload.compute =
      std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double, std::milli>{compute});
  for (const std::string& rows : given.rows) {
    options.rows.push_back(read_whole("--rows", rows, 1, kMostRows));
  }
  if (options.rows.empty()) options.rows = {20'000, 100'000, 400'000};
  for (const std::string& name :
       read_names("--capture", "way of capture", given.capture, way_names())) {
    options.ways.push_back(way_of(name));
  }
  options.slots = read_whole("--slots", given.slots, 1, 64);
  if (given.slot_bytes) {
    options.slot_bytes = read_bytes("--slot-bytes", *given.slot_bytes, std::size_t{1} << 40);
  }
  return options;
}

BenchSize run_size(const BenchOptions& options, std::size_t rows) {
  CaptureWorkload workload = options.workload;
  workload.rows = rows;
  BenchSize size{.rows = rows, .bytes = rows * workload.width * sizeof(float)};
  try {
    size.reference = measure_reference(workload);
    size.without = run_capture(workload, std::nullopt);
    for (const Way& way : options.ways) {
      CaptureOptions capture = way.options;
      capture.slots = options.slots;
      // Room for the largest change, and the ids.
      capture.slot_bytes = options.slot_bytes.value_or(size.bytes + rows * 8 + (1U << 20U));
      BenchRow row{.rows = rows, .way = way.name, .run = run_capture(workload, capture)};
      row.stall = row.run.step - size.without.step;
      size.ways.push_back(std::move(row));
    }
  } catch (const std::invalid_argument& error) {
    throw UsageError{error.what(), "", "other --rows, --tables or --table-rows"};
  }
  return size;
}

Json to_document(const BenchOptions& options, const std::vector<BenchSize>& sizes) {
  const CaptureWorkload& workload = options.workload;
  Json all = Json::array();
  for (const BenchSize& size : sizes) all.push_back(to_document(size));
  return {{"schema", "millrace.stream.bench/1"},
          {"device", workload.device},
          {"modelled", footprint_device(workload.device).modelled},
          {"allocator", workload.allocator},
          {"width", workload.width},
          {"tables", workload.tables},
          {"table_rows", workload.table_rows},
          {"compute_ms", milliseconds(workload.compute)},
          {"steps", workload.steps},
          {"run_ahead", workload.run_ahead},
          {"sizes", std::move(all)}};
}

void run(const BenchArguments& given) {
  const BenchOptions options = read_options(given);
  std::optional<Output> document;
  if (given.json) document.emplace(given.json, "--json");
  const Painter paint{colours_on_stdout()};
  std::vector<BenchSize> sizes;
  const bool modelled = footprint_device(options.workload.device).modelled;
  if (given.json != "-") {
    fmt::print("{}, {}: {} tables, {} floats a row, {} ms of other work a step\n\n",
               options.workload.device, modelled ? "modelled" : "measured", options.workload.tables,
               options.workload.width, milliseconds(options.workload.compute));
  }
  for (const std::size_t rows : options.rows) {
    sizes.push_back(run_size(options, rows));
    if (given.json != "-") fmt::print("{}", render(sizes.back(), paint));
  }
  if (document) document->write(to_document(options, sizes).dump(2) + '\n');
}

}  // namespace

void add_stream_bench(CLI::App& stream) {
  CLI::App* const command = stream.add_subcommand(
      "bench",
      "What each way of capture costs a step and how soon rows are on the host, beside a loop "
      "without");
  const auto given = std::make_shared<BenchArguments>();
  const auto add = [&](const char* name, auto& value, const char* shape, const char* help) {
    return command->add_option(name, value, help)->type_name(shape);
  };
  add("--device", given->device, "NAME",
      "virtual:h200 (default), virtual:h100, virtual:a100, cuda:N")
      ->take_last();
  add("--capture", given->capture, "NAMES",
      "all (default), or of sync, sync-pageable, mapped, ring, ring-kernel, ring-own-stream")
      ->take_last();
  add("--rows", given->rows, "N", "That a step changes; default 20000 100000 400000");
  add("--width", given->width, "N", "Floats a row; default 64")->take_last();
  add("--tables", given->tables, "N", "Default 4")->take_last();
  add("--table-rows", given->table_rows, "N", "Of each; default 4000000")->take_last();
  add("--compute", given->compute, "MS", "Of other work, a step; default 5")->take_last();
  add("--steps", given->steps, "N", "Measured, behind 32 others; default 32")->take_last();
  add("--run-ahead", given->run_ahead, "N", "Steps that the host may be ahead; default 4")
      ->take_last();
  add("--slots", given->slots, "N", "Of ring, at most; default 8")->take_last();
  add("--slot-bytes", given->slot_bytes, "SIZE", "Of each; default what a step changes")
      ->take_last();
  add("--allocator", given->allocator, "NAME", "millrace (default), torch, driver")->take_last();
  add("--json", given->json, "FILE", "The results; - for standard output")->take_last();
  command->callback([given] { run(*given); });
}

}  // namespace millrace::cli
