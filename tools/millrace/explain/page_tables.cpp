#include "explain/page_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "explain/moment_text.hpp"
#include "explain/words.hpp"
#include "page/ladder.hpp"

namespace millrace::cli {
namespace {

/** Shares that form one row. */
struct TableShare {
  MemoryShare share;
  bool is_new = true;
};

void add_to(TableShare& row, const MemoryShare& share) {
  if (std::exchange(row.is_new, false)) {
    row.share = share;
    return;
  }
  row.share.bytes += share.bytes;
  row.share.last = std::max(row.share.last, share.last);
  row.share.until =
      row.share.until && share.until ? std::max(row.share.until, share.until) : std::nullopt;
}

template <typename Note>
void add_table(PageRun& run, const char* title, std::uint32_t device,
               const std::map<std::string, TableShare>& shares, Note note) {
  if (shares.empty()) return;
  std::vector<const std::pair<const std::string, TableShare>*> order;
  for (const auto& each : shares) order.push_back(&each);
  std::ranges::stable_sort(order, std::greater{},
                           [](const auto* each) { return each->second.share.bytes; });
  constexpr std::size_t most = 12;
  PageRows rows{.title = title, .device = device, .rows = {}};
  std::uint64_t rest = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& [name, row] = *order[i];
    if (i >= most)
      rest += row.share.bytes;
    else
      rows.rows.push_back(
          {.label = name.substr(0, name.find('\n')), .bytes = row.share.bytes, .note = note(row)});
  }
  if (rest > 0)
    rows.rows.push_back(
        {.label = fmt::format("{} more", order.size() - most), .bytes = rest, .note = {}});
  run.tables.push_back(std::move(rows));
}

}  // namespace

void add_part_rows(PageRun& run, std::uint32_t device, const MemoryMoment& moment,
                   const char* title) {
  PageRows rows{.title = title, .device = device, .rows = {}};
  for (std::size_t i = 0; i < kMemoryParts; ++i) {
    const auto part = static_cast<MemoryPart>(i);
    PageRow row{.label = to_string(part), .bytes = {}, .note = meaning(part)};
    if (moment.knows(part))
      row.bytes = moment.bytes(part);
    else
      row.note += "; not in this log";
    rows.rows.push_back(std::move(row));
  }
  run.tables.push_back(std::move(rows));
}

std::vector<PageRow> what_if_rows(const ExplainedDevice& device) {
  std::vector<PageRow> rows;
  for (const WhatIfRow& row : device.rows) {
    const bool advised = !device.advice.empty() && device.advice.front().row == row.name();
    std::string note = row.failure;
    if (row.waits > 0) note = "a stream waits for another " + how_often(row.waits);
    if (advised) note = "its cost: " + device.advice.front().cost;
    rows.push_back({.label = row.name(),
                    .bytes = row.reserved,
                    .note = std::move(note),
                    .emphasized = advised});
  }
  return rows;
}

void add_what_if(PageRun& run, const ExplainedDevice& device) {
  const std::uint32_t number = device.memory.device;
  if (device.ladder) {
    PageRows ladder = page_ladder(device.ladder->ladder);
    if (!device.ladder->is_recorded)
      ladder.title = fmt::format("Where the memory of \"{}\" goes, replayed", device.ladder->of);
    ladder.device = number;
    run.tables.push_back(std::move(ladder));
  }
  PageRows rows{.title = "what it would have reserved", .device = number, .rows = {}};
  rows.rows.push_back({.label = "recorded",
                       .bytes = device.memory.peak.reserved,
                       .note = device.memory.peak.reserved ? "" : "not in this log"});
  std::ranges::move(what_if_rows(device), std::back_inserter(rows.rows));
  rows.rows.push_back({.label = kPackedName,
                       .bytes = device.packed,
                       .note = device.packed
                                   ? "with knowledge of the future; replay may find a lower one"
                                   : "not computed"});
  rows.rows.push_back({.label = "most live at once",
                       .bytes = device.memory.most_live,
                       .note = "nothing can hold the requests in less"});
  run.tables.push_back(std::move(rows));
}

void add_share_rows(PageRun& run, const ExplainedFile& file, const ExplainedDevice& device,
                    const char* by_site, const std::string& prefix) {
  const std::vector<std::string> streams = stream_names(file.explanation, false);
  const std::vector<StreamBytes> by_stream = bytes_by_stream(file, device.memory.peak);
  std::map<std::string, TableShare> sites, of_streams, of_pools;
  for (const MemoryShare& share : device.memory.peak.shares) {
    const bool is_held = share.part == MemoryPart::live || share.part == MemoryPart::rounding ||
                         share.part == MemoryPart::rest;
    if (is_held) continue;
    const std::string stream = share.stream == MemoryShare::kNoStream
                                   ? std::string{"stream not known"}
                                   : short_stream(streams[share.stream]);
    add_to(sites[fmt::format("{}\n{}\n{}", file.site(share), to_string(share.part), stream)],
           share);
    if (share.part == MemoryPart::stream) add_to(of_streams[stream], share);
    if (share.part == MemoryPart::pool) add_to(of_pools[pool_name(share.pool)], share);
  }
  const std::uint32_t number = device.memory.device;
  add_table(run, by_site, number, sites, [&](const TableShare& row) {
    const std::string stream = row.share.stream == MemoryShare::kNoStream
                                   ? std::string{}
                                   : ", on " + short_stream(streams[row.share.stream]);
    return fmt::format("{}{}; usable: {}", to_string(row.share.part), stream,
                       usable(file, row.share));
  });
  add_table(run, (prefix + "free on other streams").c_str(), number, of_streams,
            [&](const TableShare& row) {
              const auto of = std::ranges::find(by_stream, row.share.stream, &StreamBytes::stream);
              return last_use(file.log, *of);
            });
  add_table(run, (prefix + "free in other pools").c_str(), number, of_pools,
            [](const TableShare&) { return std::string{"usable in its pool only"}; });
}

void add_change_rows(PageRun& run, const std::vector<DeviceDifference>& devices) {
  constexpr std::size_t most = 20;
  const auto row = [](std::string label, std::int64_t change, std::string note) {
    const auto magnitude = static_cast<std::uint64_t>(change < 0 ? -change : change);
    return PageRow{.label = std::move(label),
                   .bytes = magnitude,
                   .note = std::move(note),
                   .is_less = change < 0};
  };
  std::vector<PageRows> tables;
  for (const DeviceDifference& device : devices) {
    if (device.device >= run.devices) continue;
    PageRows rows{.title = fmt::format("what changed of {} bytes since the earlier file",
                                       device.of_reserved ? "reserved" : "live"),
                  .device = device.device,
                  .changes = true,
                  .rows = {}};
    rows.rows.push_back(row("all", static_cast<std::int64_t>(device.second - device.first), ""));
    rows.rows.back().emphasized = true;
    std::int64_t rest = 0;
    for (std::size_t i = 0; i < device.rows.size(); ++i) {
      const MemoryDifference& each = device.rows[i];
      if (i >= most)
        rest += each.change();
      else
        rows.rows.push_back(row(each.site, each.change(),
                                fmt::format("{}, on {}", to_string(each.part), each.stream)));
    }
    if (device.rows.size() > most)
      rows.rows.push_back(row(fmt::format("{} more", device.rows.size() - most), rest, ""));
    tables.push_back(std::move(rows));
  }
  run.tables.insert(run.tables.begin(), tables.begin(), tables.end());
}

}  // namespace millrace::cli
