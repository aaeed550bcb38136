#include "stream/bench.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <vector>

#include "cli/command.hpp"
#include "cli/error.hpp"
#include "cli/figures.hpp"
#include "cli/fitted.hpp"
#include "cli/progress.hpp"
#include "cli/results.hpp"
#include "cli/run_options.hpp"
#include "cli/text.hpp"
#include "cli/values.hpp"
#include "cli/without_effect.hpp"
#include "cli/wording.hpp"
#include "millrace/device/profile.hpp"
#include "millrace/experiment/capture_comparison.hpp"
#include "millrace/memory/byte_size.hpp"
#include "millrace/pipeline/schedule/run_device.hpp"
#include "millrace/pipeline/schedule/run_memory.hpp"
#include "millrace/text/units.hpp"
#include "page/recorded.hpp"
#include "stream/bench_results.hpp"

namespace millrace::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostRows = 100'000'000;
constexpr const char* kWithout = "none";  ///< names the loop without a capture

struct BenchArguments {
  std::string device = "virtual:h200", allocator = "millrace", capture = "all";
  std::string rows = "20000,100000,400000";
  std::string width = "64", tables = "4", table_rows = "4000000", compute = "5", steps = "32",
              steps_ahead = "4";
  std::optional<std::string> slots, slot_bytes, html;
  bool wide = false;
  ResultArguments results;
};

/** A way of capture, with its name in the table. */
struct Way {
  std::string name;
  CaptureOptions options;
};

std::vector<std::string> way_names() {
  std::vector<std::string> names;
  for (const CaptureMode mode : kCaptureModes) names.emplace_back(millrace::to_string(mode));
  names.emplace_back("ring-own-stream");
  return names;
}

Way way_of(const std::string& name) {
  if (name != "ring-own-stream") return {name, {.mode = parse_capture_mode(name)}};
  return {name, {.mode = CaptureMode::ring, .gather_on = GatherOn::own_stream}};
}

/** Whether a capture mode has staging slots whose number can be chosen. */
bool has_slots(CaptureMode mode) { return mode != CaptureMode::mapped; }

struct BenchOptions {
  experiment::CaptureWorkload workload;
  std::vector<std::size_t> rows;
  std::vector<Way> ways;
  std::size_t slots = 8;
  std::optional<std::size_t> slot_bytes;
};

BenchOptions read_options(const BenchArguments& given) {
  BenchOptions options;
  experiment::CaptureWorkload& workload = options.workload;
  workload.device = read_device(given.device).name;
  workload.allocator = read_name("--allocator", "allocator", given.allocator,
                                 {kAllocatorNames.begin(), kAllocatorNames.end()});
  workload.width = read_whole("--width", given.width, 1, 65'536);
  workload.tables = read_whole("--tables", given.tables, 1, 4'096);
  workload.table_rows = read_whole("--table-rows", given.table_rows, 1, 10'000'000'000);
  workload.steps = static_cast<unsigned>(read_whole("--steps", given.steps, 1, 100'000));
  workload.run_ahead =
      static_cast<unsigned>(read_whole("--steps-ahead", given.steps_ahead, 1, 256));
  const double compute = read_number("--compute", given.compute, 0, 60'000);
  workload.compute =
      std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double, std::milli>{compute});
  for (const std::string_view rows : split_list(given.rows)) {
    options.rows.push_back(read_whole("--rows", std::string{rows}, 1, kMostRows));
  }

  for (const std::string& name :
       read_names("--capture", "way of capture", given.capture, way_names())) {
    options.ways.push_back(way_of(name));
  }
  if (given.slots) {
    options.slots = read_whole("--slots", *given.slots, 1, 64);
    const bool used = std::ranges::any_of(
        options.ways, [](const Way& way) { return has_slots(way.options.mode); });
    refuse_without_effect("--slots", !used, "mapped has one slot", "another --capture with it");
  }
  if (given.slot_bytes) {
    options.slot_bytes = read_bytes("--slot-bytes", *given.slot_bytes, std::size_t{1} << 40);
  }
  return options;
}

/** Runs a loop of this workload. @throws UsageError that names the options that do not fit; the
 * library's message says what is expected */
template <typename Run>
auto measured(const char* options, Run run) {
  try {
    return run();
  } catch (const std::invalid_argument& error) {
    throw UsageError{error.what(), options};
  }
}

/** The page of one size. It shows two ways of capture, or one way beside the loop without a
 * capture. */
RecordedPage page_of(const std::string& file, const BenchOptions& options) {
  const experiment::CaptureWorkload& workload = options.workload;
  check_page_device(workload.device, find_device(workload.device).modeled);
  const std::size_t ways = options.ways.size(), sizes = options.rows.size();
  check_page_runs(sizes * (ways == 1 ? 2 : ways),
                  fmt::format("{} ways of capture at {} numbers of rows", ways, sizes),
                  "--rows 100000 --capture ring,mapped");
  std::vector<std::string> names;
  if (ways == 1) names.emplace_back(kWithout);
  for (const Way& way : options.ways) names.push_back(way.name);
  std::vector<PlannedRun> runs;
  for (std::string& name : names) {
    const std::string rows = std::to_string(options.rows.front());
    runs.push_back({fmt::format("capture {}", name),
                    {{"device", workload.device},
                     {"allocator", workload.allocator},
                     {"capture", name},
                     {"changed rows per step", rows}}});
  }
  return {file, "millrace stream bench", std::move(runs)};
}

/** Makes the recorder that passes a run to the page. Without a page it records nothing. */
experiment::RunRecorder recorder_of(RecordedPage* page, std::size_t index) {
  if (page == nullptr) return {};
  return [page, index](const experiment::RecordedRun& run) { page->take(index, run); };
}

/** @param page  receives the runs that it shows; may be nullptr */
BenchSize run_size(const BenchOptions& options, std::size_t rows, RecordedPage* page,
                   Progress& progress) {
  experiment::CaptureWorkload workload = options.workload;
  workload.rows = rows;
  std::size_t shown = 0;
  if (options.ways.size() == 1) workload.recorded = recorder_of(page, shown++);
  BenchSize size{.rows = rows, .bytes = rows * workload.width * sizeof(float)};
  const auto done = [&](const std::string& what) {
    progress.advance(fmt::format("{} rows, {}", grouped(rows), what));
  };
  size.reference = measured("--rows, --tables, --table-rows",
                            [&] { return experiment::measure_reference(workload); });
  done("copies");
  size.without = measured("--rows, --tables, --table-rows",
                          [&] { return experiment::run_capture(workload, std::nullopt); });
  done(kWithout);
  for (const Way& way : options.ways) {
    workload.recorded = recorder_of(page, shown++);
    CaptureOptions capture = way.options;
    capture.slots = options.slots;
    // Room for the largest change: its bytes and its ids.
    capture.slot_bytes = options.slot_bytes.value_or(size.bytes + rows * 8 + (1U << 20U));
    BenchRow row{.rows = rows, .way = way.name};
    row.run = measured("--slot-bytes", [&] { return experiment::run_capture(workload, capture); });
    row.stall = row.run.step - size.without.step;
    size.ways.push_back(std::move(row));
    done(way.name);
  }
  return size;
}

Json to_document(const BenchOptions& options, const std::vector<BenchSize>& sizes) {
  const experiment::CaptureWorkload& workload = options.workload;
  Json all = Json::array();
  for (const BenchSize& size : sizes) all.push_back(to_document(size));
  return {{"schema", "millrace.stream.bench/1"},
          {"device", workload.device},
          {"modeled", find_device(workload.device).modeled},
          {"allocator", workload.allocator},
          {"width", workload.width},
          {"tables", workload.tables},
          {"table_rows", workload.table_rows},
          {"compute_ms", in_milliseconds(workload.compute)},
          {"steps", workload.steps},
          {"run_ahead", workload.run_ahead},
          {"sizes", std::move(all)}};
}

std::string title(const BenchOptions& options) {
  const experiment::CaptureWorkload& workload = options.workload;
  const bool modeled = find_device(workload.device).modeled;
  return fmt::format("{}, {}: {} tables, {} floats per row, {} ms of other work per step\n\n",
                     workload.device, modeled ? "modeled" : "measured", workload.tables,
                     workload.width, in_milliseconds(workload.compute));
}

void run(const BenchArguments& given) {
  const BenchOptions options = read_options(given);
  const Results results{given.results};
  std::optional<RecordedPage> page;
  if (given.html) page.emplace(page_of(*given.html, options));
  std::vector<BenchSize> sizes;
  for (const std::size_t rows : options.rows) {
    Progress progress{"stream bench", options.ways.size() + 2};
    sizes.push_back(run_size(options, rows, page ? &*page : nullptr, progress));
  }
  if (page) page->write();
  results.write(
      [&](const Painter& paint) {
        std::string text = title(options);
        for (const BenchSize& size : sizes) text += render(size, given.wide, paint);
        // Usually all sizes get the same advice. The size with the most rows shows it best.
        const auto most = std::ranges::max_element(sizes, {}, &BenchSize::rows);
        const std::string advice = most == sizes.end() ? "" : bench_advice(*most, paint);
        return fitted(text) + paint(bench_legend(given.wide), Look::faint) +
               (advice.empty() ? "" : '\n' + fitted(advice));
      },
      [&] { return to_document(options, sizes); });
}

}  // namespace

void add_stream_bench(CLI::App& stream) {
  Command command{stream, "bench",
                  "Measures what each way of capture costs per step and when rows are on the host, "
                  "compared with a loop without capture"};
  const auto given = std::make_shared<BenchArguments>();
  command.add("--device", given->device, "NAME", device_help("h200", true));
  command.add(
      "--capture", given->capture, "A,B|all",
      fmt::format("Compare these ways of capture: {} (default all)", fmt::join(way_names(), ", ")));
  command.add("--rows", given->rows, "N,N",
              "Change this many rows per step, in one run for each number (default "
              "20000,100000,400000)");
  command.add("--width", given->width, "N", "Use rows of N floats (default 64)");
  command.add("--tables", given->tables, "N", "Use N tables (default 4)");
  command.add("--table-rows", given->table_rows, "N", "Use tables of N rows (default 4000000)");
  command.add("--compute", given->compute, "MS",
              "Add this much other work to a step, in ms (default 5)");
  command.add("--steps", given->steps, "N", "Measure N steps, after 32 warm-up steps (default 32)");
  command.add("--steps-ahead", given->steps_ahead, "N",
              "Let the host be at most N steps ahead (default 4)");
  command.former("--run-ahead", "--steps-ahead", given->steps_ahead);
  command.add("--slots", given->slots, "N", "Use at most N slots for a ring (default 8)");
  command.add("--slot-bytes", given->slot_bytes, "SIZE",
              "Set the size of each slot (default: the bytes that a step changes)");
  command.add("--allocator", given->allocator, "NAME", allocator_help("millrace"));
  add_wide_option(command, given->wide);
  add_page_option(command, given->html);
  add_result_options(command, given->results);
  command.examples({{"millrace stream bench --rows 100000 --capture ring,mapped",
                     "Compares two ways of capture at 100,000 changed rows per step."},
                    {"millrace stream bench --device cuda:0 --json bench.json",
                     "Measures all ways on a GPU, and writes the results as JSON as well."}});
  command.run([given] { run(*given); });
}

}  // namespace millrace::cli
