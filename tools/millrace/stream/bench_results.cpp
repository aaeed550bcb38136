#include "stream/bench_results.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "cli/advice_lines.hpp"
#include "cli/figures.hpp"
#include "cli/wording.hpp"
#include "millrace/memory/byte_size.hpp"
#include "millrace/observe/report.hpp"
#include "millrace/text/units.hpp"
#include "stream/json.hpp"

namespace millrace::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kSameStep = 0.01;  ///< a stall of at most this share of a step counts as none

double bytes_per_second(double bytes, Nanoseconds time) {
  return time.count() <= 0 ? 0 : bytes / in_seconds(time);
}

/** Bytes per second of a copy to the host that runs alone. */
double link_rate(const BenchSize& size) {
  return bytes_per_second(static_cast<double>(size.bytes), size.reference.to_host);
}

double link_factor(const CaptureCounts& counts) {
  if (counts.changed_bytes == 0) return 0;
  return static_cast<double>(counts.link_bytes) / static_cast<double>(counts.changed_bytes);
}

/** The gather's part of the stall. It is the whole stall, unless the training stream also waits for
 * the copy. */
Nanoseconds gather_time(const BenchRow& row) {
  const CaptureCounts& counts = row.run.counts;
  const bool waits_for_copy = row.way == "sync" || row.way == "sync-pageable";
  if (!waits_for_copy || counts.captures == 0) return row.stall;
  return row.stall - counts.copying / static_cast<Nanoseconds::rep>(counts.captures);
}

double gather_throughput(const BenchSize& size, const BenchRow& row) {
  return bytes_per_second(static_cast<double>(size.bytes), gather_time(row));
}

double rows_per_second(const BenchSize& size, const experiment::CaptureRun& run) {
  return bytes_per_second(static_cast<double>(size.rows), run.step);
}

/**
 * @brief Bytes per second over the link: of the copies, or of a gather that writes to host memory.
 * @return std::nullopt if a kernel copies, because its time is not measured
 */
std::optional<double> link_throughput(const BenchRow& row) {
  const CaptureCounts& counts = row.run.counts;
  if (counts.copied_bytes > 0) {
    return bytes_per_second(static_cast<double>(counts.copied_bytes), counts.copying);
  }
  if (counts.captures == 0 || row.way != "mapped") return std::nullopt;
  const auto captures = static_cast<double>(counts.captures);
  return bytes_per_second(static_cast<double>(counts.link_bytes) / captures, row.stall);
}

Json to_document(const BenchSize& size, const BenchRow& row) {
  const experiment::CaptureRun& run = row.run;
  const std::optional<double> link = link_throughput(row);
  return {
      {"capture", row.way},
      {"step_ms", in_milliseconds(run.step)},
      {"stall_us", in_microseconds(row.stall)},
      {"host_wait_us", in_microseconds(run.host_wait)},
      {"run_ahead_steps", run.run_ahead},
      {"lag_ms", {{"p50", in_milliseconds(run.lag_p50)}, {"p99", in_milliseconds(run.lag_p99)}}},
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

using Cell = TextTable::Cell;

Cell number(double value, int digits) { return {fmt::format("{:.{}f}", value, digits)}; }

std::vector<TextTable::Group> first_groups() {
  return {{"", {{"capture"}}},
          {"a step", {{"ms", 7}, {"stall us"}}},
          {"rows on the host", {{"after ms", 16}}},
          {"memory", {{"device", 9}, {"pinned", 9}}}};
}

std::vector<TextTable::Group> wide_bench_groups() {
  return {{"", {{"capture"}}},
          {"a step", {{"ms"}, {"stall us"}, {"host us"}, {"ahead"}}},
          {"rows on the host", {{"ms"}, {"P99"}, {"link x"}}},
          {"throughput", {{"Mrows/s"}, {"gather GB/s"}, {"link GB/s"}}},
          {"memory", {{"device"}, {"pinned"}, {"reserved"}}}};
}

std::vector<Cell> first_cells(const BenchRow& row) {
  const experiment::CaptureRun& run = row.run;
  return {{row.way},
          number(in_milliseconds(run.step), 3),
          number(in_microseconds(row.stall), 1),
          run.counts.captures > 0 ? number(in_milliseconds(run.lag_p50), 2) : Cell{"–"},
          {format_bytes(run.device_bytes)},
          {format_bytes(run.pinned_bytes)}};
}

std::vector<Cell> wide_cells(const BenchSize& size, const BenchRow& row) {
  const experiment::CaptureRun& run = row.run;
  const bool captured = run.counts.captures > 0;
  const std::optional<double> link = link_throughput(row);
  const auto if_captured = [&](double value, int digits) {
    return captured ? number(value, digits) : Cell{"–"};
  };
  return {{row.way},
          number(in_milliseconds(run.step), 3),
          number(in_microseconds(row.stall), 1),
          number(in_microseconds(run.host_wait), 1),
          number(run.run_ahead, 1),
          if_captured(in_milliseconds(run.lag_p50), 2),
          if_captured(in_milliseconds(run.lag_p99), 2),
          if_captured(link_factor(run.counts), 3),
          if_captured(rows_per_second(size, run) / 1e6, 1),
          if_captured(in_gb(gather_throughput(size, row)), 1),
          link ? number(in_gb(*link), 1) : Cell{"–"},
          {format_bytes(run.device_bytes)},
          {format_bytes(run.pinned_bytes)},
          {format_bytes(run.bytes.reserved.peak)}};
}

/** @brief "step +0.3%"; in microseconds if the change rounds to 0% and the table shows a stall. */
std::string step_change(const BenchSize& size, const BenchRow& row) {
  const auto of = [](const experiment::CaptureRun& run) {
    return static_cast<double>(run.step.count());
  };
  const std::string same = time_change("step", 1, 1);
  const std::string change = time_change("step", of(size.without), of(row.run));
  const double stall = std::round(in_microseconds(row.stall) * 10) / 10;
  if (change != same || stall == 0) return change;
  return fmt::format("step {}{:.1f} us", stall < 0 ? "−" : "+", std::abs(stall));
}

/** @brief Whether the capture makes a step at most 1% longer (`kSameStep`). */
bool takes_as_long(const BenchSize& size, const BenchRow& row) {
  return static_cast<double>(row.stall.count()) <=
         kSameStep * static_cast<double>(size.without.step.count());
}

}  // namespace

std::string render(const BenchSize& size, bool wide, const Painter& paint) {
  TextTable table{wide ? wide_bench_groups() : first_groups()};
  const auto add = [&](const BenchRow& row) {
    table.add_row(wide ? wide_cells(size, row) : first_cells(row));
  };
  add({.rows = size.rows, .way = "none", .run = size.without});
  for (const BenchRow& row : size.ways) add(row);
  return paint(fmt::format("{} rows per step, {}", grouped(size.rows), format_bytes(size.bytes)),
               Look::strong) +
         fmt::format("; copied once on the device {:.1f} us, to the host {:.1f} us ({:.1f} GB/s)\n",
                     in_microseconds(size.reference.on_device),
                     in_microseconds(size.reference.to_host), in_gb(link_rate(size))) +
         table.render(paint) + '\n';
}

std::string bench_advice(const BenchSize& size, const Painter& paint) {
  const BenchRow* shortest = nullptr;
  const BenchRow* smallest = nullptr;
  const auto bytes_of = [](const BenchRow& row) {
    return row.run.device_bytes + row.run.pinned_bytes;
  };
  for (const BenchRow& row : size.ways) {
    if (row.run.counts.captures == 0) continue;
    if (shortest == nullptr || row.stall < shortest->stall) shortest = &row;
    if (smallest == nullptr || bytes_of(row) < bytes_of(*smallest)) smallest = &row;
  }
  if (shortest == nullptr) return "";
  const auto line = [&](std::string_view title, const BenchRow& row) {
    const std::string text =
        fmt::format("{}, {}, rows after {:.2f} ms, {} of memory.", row.way, step_change(size, row),
                    in_milliseconds(row.run.lag_p50), format_bytes(bytes_of(row)));
    return advice_line(title, text, takes_as_long(size, row), paint);
  };
  std::string out =
      fmt::format("At {} rows per step, the loop without a capture takes {:.3f} ms per step.\n",
                  grouped(size.rows), in_milliseconds(size.without.step));
  if (shortest == smallest) return out + line("Least added time and memory", *shortest);
  return out + line("Least added time", *shortest) + line("Least memory", *smallest);
}

std::string bench_legend(bool wide) {
  const char* const first =
      "stall: how much longer a step takes than without capture (none). rows on the host: median "
      "time from the update until the rows are in host memory. device, pinned: memory of the "
      "capture. --wide: all columns.";
  const char* const all =
      "stall: how much longer a step takes than without capture (none). host us: what the host "
      "waits in a step. ahead: steps that the host is ahead of the device, on average. rows on the "
      "host: median and P99 time from the update until the rows are in host memory. link x: bytes "
      "over the link for each changed byte. reserved: peak of the run's allocator.";
  return wrap(wide ? all : first, page_width(), 0) + '\n';
}

Json to_document(const BenchSize& size) {
  Json ways = Json::array();
  for (const BenchRow& row : size.ways) ways.push_back(to_document(size, row));
  return {{"rows", size.rows},
          {"changed_bytes", size.bytes},
          {"copy_on_device_us", in_microseconds(size.reference.on_device)},
          {"copy_to_host_us", in_microseconds(size.reference.to_host)},
          {"link_bytes_per_second", link_rate(size)},
          {"without",
           {{"step_ms", in_milliseconds(size.without.step)},
            {"run_ahead_steps", size.without.run_ahead},
            {"bytes", nlohmann::json(size.without.bytes)},
            {"ladder", nlohmann::json(size.without.ladder)}}},
          {"captures", std::move(ways)}};
}

}  // namespace millrace::cli
