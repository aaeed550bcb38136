#include "stream/bench.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <vector>

#include "cli/error.hpp"
#include "cli/output.hpp"
#include "cli/text.hpp"
#include "cli/values.hpp"
#include "millrace/device/profile.hpp"
#include "millrace/observe/report.hpp"
#include "millrace/pipeline/data/byte_size.hpp"
#include "millrace/pipeline/schedule/footprint.hpp"
#include "millrace/streamer/capture_comparison.hpp"
#include "stream/json.hpp"

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
  const double milliseconds = read_number("--compute", given.compute, 0, 60'000);
  workload.compute = std::chrono::duration_cast<Nanoseconds>(
      std::chrono::duration<double, std::milli>{milliseconds});
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

struct BenchRow {
  std::size_t rows = 0;
  std::string way;
  CaptureRun run;
  Nanoseconds stall{0};  ///< of a step, on the device
};

struct BenchSize {
  std::size_t rows = 0, bytes = 0;
  CaptureReference reference;
  CaptureRun without;
  std::vector<BenchRow> ways;
};

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

double milliseconds(Nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }
double microseconds(Nanoseconds time) { return static_cast<double>(time.count()) / 1e3; }

double bytes_per_second(double bytes, Nanoseconds time) {
  return time.count() <= 0 ? 0 : bytes / (static_cast<double>(time.count()) / 1e9);
}

/** Bytes a second of a copy to the host alone. */
double link_rate(const BenchSize& size) {
  return bytes_per_second(static_cast<double>(size.bytes), size.reference.to_host);
}

double link_factor(const CaptureCounts& counts) {
  if (counts.changed_bytes == 0) return 0;
  return static_cast<double>(counts.link_bytes) / static_cast<double>(counts.changed_bytes);
}

/** What of the stall is the gather: where the training stream waits for the copy too, the rest. */
Nanoseconds gather_time(const BenchRow& row) {
  const CaptureCounts& counts = row.run.counts;
  const bool waits_for_copy = row.way == "sync" || row.way == "sync-pageable";
  if (!waits_for_copy || counts.captures == 0) return row.stall;
  return row.stall - counts.copying / static_cast<Nanoseconds::rep>(counts.captures);
}

double gather_throughput(const BenchSize& size, const BenchRow& row) {
  return bytes_per_second(static_cast<double>(size.bytes), gather_time(row));
}

double rows_per_second(const BenchSize& size, const CaptureRun& run) {
  return bytes_per_second(static_cast<double>(size.rows), run.step);
}

/** @brief Bytes a second over the link: of copies, or of the gather where that writes there. Nobody
 *         times a kernel that copies. */
std::optional<double> link_throughput(const BenchRow& row) {
  const CaptureCounts& counts = row.run.counts;
  if (counts.copied_bytes > 0) {
    return bytes_per_second(static_cast<double>(counts.copied_bytes), counts.copying);
  }
  if (counts.captures == 0 || row.way != "mapped") return std::nullopt;
  const auto captures = static_cast<double>(counts.captures);
  return bytes_per_second(static_cast<double>(counts.link_bytes) / captures, row.stall);
}

std::string render(const BenchSize& size, const Painter& paint) {
  TextTable table{{{"", {{"capture"}}},
                   {"a step", {{"ms"}, {"stall us"}, {"host us"}, {"ahead"}}},
                   {"rows on the host", {{"ms"}, {"P99"}, {"link x"}}},
                   {"throughput", {{"Mrows/s"}, {"gather GB/s"}, {"link GB/s"}}},
                   {"memory", {{"device"}, {"pinned"}, {"reserved"}}}}};
  const auto number = [](double value, int digits) {
    return TextTable::Cell{fmt::format("{:.{}f}", value, digits)};
  };
  const auto add = [&](const BenchRow& row) {
    const CaptureRun& run = row.run;
    const bool captured = run.counts.captures > 0;
    const std::optional<double> link = link_throughput(row);
    const auto if_captured = [&](double value, int digits) {
      return captured ? number(value, digits) : TextTable::Cell{"–"};
    };
    table.add_row({{row.way},
                   number(milliseconds(run.step), 3),
                   number(microseconds(row.stall), 1),
                   number(microseconds(run.host_wait), 1),
                   number(run.run_ahead, 1),
                   if_captured(milliseconds(run.lag_p50), 2),
                   if_captured(milliseconds(run.lag_p99), 2),
                   if_captured(link_factor(run.counts), 3),
                   if_captured(rows_per_second(size, run) / 1e6, 1),
                   if_captured(gather_throughput(size, row) / 1e9, 1),
                   link ? number(*link / 1e9, 1) : TextTable::Cell{"–"},
                   {format_bytes(run.device_bytes)},
                   {format_bytes(run.pinned_bytes)},
                   {format_bytes(run.bytes.reserved.peak)}});
  };
  add({.rows = size.rows, .way = "none", .run = size.without});
  for (const BenchRow& row : size.ways) add(row);
  return paint(fmt::format("{} rows a step, {}", size.rows, format_bytes(size.bytes)),
               Look::strong) +
         fmt::format("; copied once on the device {:.1f} us, to the host {:.1f} us ({:.1f} GB/s)\n",
                     microseconds(size.reference.on_device), microseconds(size.reference.to_host),
                     link_rate(size) / 1e9) +
         table.render(paint) + '\n';
}

Json to_document(const BenchSize& size, const BenchRow& row) {
  const CaptureRun& run = row.run;
  const std::optional<double> link = link_throughput(row);
  return {{"capture", row.way},
          {"step_ms", milliseconds(run.step)},
          {"stall_us", microseconds(row.stall)},
          {"host_wait_us", microseconds(run.host_wait)},
          {"run_ahead_steps", run.run_ahead},
          {"lag_ms", {{"p50", milliseconds(run.lag_p50)}, {"p99", milliseconds(run.lag_p99)}}},
          {"gather_bytes_per_second", gather_throughput(size, row)},
          {"link_bytes_per_second", link ? Json(*link) : Json()},
          {"rows_per_second", rows_per_second(size, run)},
          {"link_bytes_per_changed_byte", link_factor(run.counts)},
          {"device_bytes", run.device_bytes},
          {"pinned_bytes", run.pinned_bytes},
          {"bytes", nlohmann::json(run.bytes)},
          {"ladder", nlohmann::json(run.ladder)},
          {"counts", cli::to_document(run.counts)}};
}

Json to_document(const BenchOptions& options, const std::vector<BenchSize>& sizes) {
  const CaptureWorkload& workload = options.workload;
  Json all = Json::array();
  for (const BenchSize& size : sizes) {
    Json ways = Json::array();
    for (const BenchRow& row : size.ways) ways.push_back(to_document(size, row));
    all.push_back({{"rows", size.rows},
                   {"changed_bytes", size.bytes},
                   {"copy_on_device_us", microseconds(size.reference.on_device)},
                   {"copy_to_host_us", microseconds(size.reference.to_host)},
                   {"link_bytes_per_second", link_rate(size)},
                   {"without",
                    {{"step_ms", milliseconds(size.without.step)},
                     {"run_ahead_steps", size.without.run_ahead},
                     {"bytes", nlohmann::json(size.without.bytes)},
                     {"ladder", nlohmann::json(size.without.ladder)}}},
                   {"captures", std::move(ways)}});
  }
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
