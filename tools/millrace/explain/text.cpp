#include "explain/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

#include "cli/page.hpp"
#include "cli/wording.hpp"
#include "explain/list.hpp"
#include "explain/sentences.hpp"
#include "explain/words.hpp"
#include "millrace/memory/byte_size.hpp"

namespace millrace::cli {
namespace {

constexpr std::size_t kNarrow = 80;
constexpr std::size_t kHolders = 5;  // rows of each list on the first screen
constexpr std::size_t kStreams = 3;
constexpr std::size_t kChanges = 8;
constexpr std::size_t kWarnings = 3;
constexpr std::size_t kEverything = SIZE_MAX;

std::size_t width_for(const ExplainText& options) {
  return options.wide ? page_width() : std::min(page_width(), kNarrow);
}

std::string sentence(const std::string& text, std::size_t width, std::size_t indent = 0) {
  return std::string(indent, ' ') + wrap(printable(text), width - indent, indent + 2) + '\n';
}

TextTable::Cell cell(std::string text, Look look = Look::plain) { return {std::move(text), look}; }

/** Shares of one site, wherever in it: the same line of the program on one stream. */
std::vector<MemoryShare> merged(const ExplainedFile& file, const std::vector<MemoryShare>& shares,
                                bool (*counts)(MemoryPart)) {
  std::map<std::tuple<MemoryPart, std::uint32_t, std::string>, MemoryShare> sums;
  for (const MemoryShare& share : shares) {
    if (!counts(share.part)) continue;
    const auto [known, fresh] =
        sums.try_emplace({share.part, share.stream, file.site(share)}, share);
    if (fresh) continue;
    MemoryShare& sum = known->second;
    sum.bytes += share.bytes;
    sum.blocks += share.blocks;
    sum.first = std::min(sum.first, share.first);  // the beginning is before all events
    sum.last = std::max(sum.last, share.last);
    sum.until = sum.until && share.until ? std::max(sum.until, share.until) : std::nullopt;
  }
  std::vector<MemoryShare> rows;
  for (auto& [key, sum] : sums) rows.push_back(sum);
  std::ranges::stable_sort(rows, std::greater{}, &MemoryShare::bytes);
  return rows;
}

bool is_live(MemoryPart part) { return part == MemoryPart::live; }
bool is_kept(MemoryPart part) {
  return part != MemoryPart::live && part != MemoryPart::rounding && part != MemoryPart::rest;
}

/** The text of one device. */
class DeviceText {
 public:
  DeviceText(const ExplainedFile& file, const ExplainedDevice& device, const ExplainText& options,
             const Painter& paint, bool is_host)
      : file_(file),
        device_(device),
        streams_(stream_names(file.explanation, false)),
        peak_(device.memory.peak),
        paint_(paint),
        width_(width_for(options)),
        wide_(options.wide),
        is_host_(is_host),
        unit_(peak_.reserved.value_or(device.memory.most_live)) {}

  std::string run() {
    for (const std::string& line : failure_sentences(file_, device_.memory)) add(line);
    if (!text_.empty()) text_ += '\n';
    for (const std::string& line : peak_sentences(file_, device_)) add(line);
    if (peak_.reserved) add_parts();
    add_holders("live, by site", is_live);
    if (peak_.reserved) add_holders("not live, by site", is_kept);
    if (!is_host_) {
      add_rows();
      add_advice();
    }
    return text_;
  }

 private:
  void add(const std::string& text) { text_ += sentence(text, width_); }

  void add_parts() {
    text_ += '\n';
    for (std::size_t i = 0; i < kMemoryParts; ++i) {
      const auto part = static_cast<MemoryPart>(i);
      const std::uint64_t bytes = peak_.bytes(part);
      if (bytes == 0) continue;
      text_ += fmt::format("  {:<10} {:>10}  {:>4}  {}\n", to_string(part), format_bytes(bytes),
                           share_of(bytes, *peak_.reserved), detail(part));
      if (part == MemoryPart::stream) add_streams();
      if (part == MemoryPart::pool) add_pools();
    }
  }

  // Each stream that has free memory, and since when: after its work of then, others could use it.
  void add_streams() {
    std::map<std::uint32_t, MemoryShare> streams;
    for (const MemoryShare& share : peak_.shares) {
      if (share.part != MemoryPart::stream) continue;
      const auto [known, fresh] = streams.try_emplace(share.stream, share);
      if (fresh) continue;
      known->second.bytes += share.bytes;
      known->second.last = std::max(known->second.last, share.last);
    }
    std::vector<MemoryShare> rows;
    for (const auto& [stream, sum] : streams) rows.push_back(sum);
    std::ranges::stable_sort(rows, std::greater{}, &MemoryShare::bytes);
    const std::size_t shown = std::min(rows.size(), wide_ ? kEverything : kStreams);
    for (std::size_t i = 0; i < shown; ++i) {
      text_ += sentence(fmt::format("{} of it {}, last freed at {}", format_bytes(rows[i].bytes),
                                    on_stream(file_.explanation, streams_, rows[i].stream),
                                    event_name(file_.log, rows[i].last)),
                        width_, 4);
    }
    if (shown < rows.size()) {
      text_ += fmt::format("    and on {} more streams\n", rows.size() - shown);
    }
  }

  void add_pools() {
    std::map<trace::TorchPool, std::uint64_t> pools;
    for (const MemoryShare& share : peak_.shares) {
      if (share.part == MemoryPart::pool) pools[share.pool] += share.bytes;
    }
    std::vector<std::pair<trace::TorchPool, std::uint64_t>> rows{pools.begin(), pools.end()};
    std::ranges::stable_sort(rows, std::greater{},
                             &std::pair<trace::TorchPool, std::uint64_t>::second);
    const std::size_t shown = std::min(rows.size(), wide_ ? kEverything : kStreams);
    for (std::size_t i = 0; i < shown; ++i) {
      text_ += fmt::format("    {} of it in {}\n", format_bytes(rows[i].second),
                           pool_name(rows[i].first));
    }
    if (shown < rows.size()) {
      text_ += fmt::format("    and in {} more pools\n", rows.size() - shown);
    }
  }

  [[nodiscard]] std::string detail(MemoryPart part) const {
    std::string text = meaning(part);
    if (part != MemoryPart::stream && part != MemoryPart::pool) return text;
    std::uint64_t whole = 0;
    for (const MemoryShare& share : peak_.shares) {
      if (share.part == part && share.whole) whole += share.bytes;
    }
    return text + fmt::format(", {} of it whole segments", share_of(whole, peak_.bytes(part)));
  }

  void add_holders(const std::string& title, bool (*counts)(MemoryPart)) {
    const std::vector<MemoryShare> rows = merged(file_, peak_.shares, counts);
    if (rows.empty()) return;
    const bool live = counts == is_live;
    std::vector<std::string> titles{title, "size", live ? "blocks" : "ranges",
                                    live ? "stream" : "what"};
    if (wide_) titles.emplace_back("since");
    titles.emplace_back(live ? "lives" : "usable");
    List table{std::move(titles)};
    const std::size_t shown = std::min(rows.size(), wide_ ? kEverything : kHolders);
    for (std::size_t i = 0; i < shown; ++i) {
      const MemoryShare& row = rows[i];
      std::vector<TextTable::Cell> cells{
          cell(file_.site(row)), cell(format_bytes(row.bytes)), cell(fmt::format("{}", row.blocks)),
          cell(live ? short_stream(streams_[row.stream]) : to_string(row.part))};
      // Live blocks since the first was allocated, and all of the others since the last was freed.
      if (wide_) cells.push_back(cell(since(row)));
      cells.push_back(cell(usable(file_.log, row)));
      table.add_row(std::move(cells));
    }
    std::uint64_t others = 0;
    for (std::size_t i = shown; i < rows.size(); ++i) others += rows[i].bytes;
    if (others > 0) {
      table.add_row({cell(fmt::format("{} more, with --wide", rows.size() - shown)),
                     cell(format_bytes(others))});
    }
    text_ += '\n' + table.render(paint_, width_);
  }

  [[nodiscard]] std::string since(const MemoryShare& row) const {
    if (row.part == MemoryPart::driver) return "not known";
    return event_name(file_.log, is_live(row.part) ? row.first : row.last);
  }

  void add_rows() {
    if (device_.rows.empty()) return add_left_out();
    List table{{"what it would have reserved", unit_.name(), "/ live"}};
    const std::uint64_t live = device_.memory.most_live;
    const auto add_row = [&](const std::string& name, std::uint64_t bytes, Look look) {
      table.add_row({cell(name), cell(unit_.plain(bytes), look),
                     cell(live == 0 ? "–"
                                    : fmt::format("{:.3f}", static_cast<double>(bytes) /
                                                                static_cast<double>(live)))});
    };
    if (peak_.reserved) add_row("recorded", *peak_.reserved, Look::strong);
    std::string failures;
    for (const WhatIfRow& row : device_.rows) {
      if (row.reserved)
        add_row(row.name(), *row.reserved, Look::plain);
      else
        failures += sentence(row.name() + ": out of memory: " + row.failure, width_);
    }
    if (device_.packed) add_row(kPackedName, *device_.packed, Look::plain);
    add_row("most live at once", live, Look::plain);
    text_ += '\n' + table.render(paint_, width_) + failures;
    add_left_out();
  }

  void add_left_out() {
    if (!device_.left_out.empty()) add("left out: " + device_.left_out);
  }

  void add_advice() {
    text_ += '\n';
    for (const std::string& line : advice_sentences(file_, device_, wide_)) add(line);
  }

  const ExplainedFile& file_;
  const ExplainedDevice& device_;
  const std::vector<std::string> streams_;
  const MemoryMoment& peak_;
  const Painter& paint_;
  const std::size_t width_;
  const bool wide_;
  const bool is_host_;  ///< pinned memory, which no replay has
  const SizeUnit unit_;
  std::string text_;
};

std::string file_line(const ExplainedFile& file, std::size_t width) {
  std::size_t allocations = 0, frees = 0;
  for (const trace::LogEvent& event : file.log.events) {
    allocations += event.kind == trace::EventKind::allocate ? 1 : 0;
    frees += event.kind == trace::EventKind::free_requested ? 1 : 0;
  }
  return sentence(fmt::format("{} ({}): {} allocations, {} frees", file.file,
                              trace::to_string(file.log.format), allocations, frees),
                  width);
}

std::string warnings_of(const ExplainedFile& file, const ExplainText& options) {
  std::vector<std::string> warnings = file.log.warnings;
  if (file.log.addresses_are_made_up) {
    warnings.insert(warnings.begin(),
                    "the recording made up the addresses: what lay beside what is not known");
  }
  const std::size_t shown = std::min(warnings.size(), options.wide ? kEverything : kWarnings);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    text += sentence("note: " + warnings[i], width_for(options));
  }
  if (shown < warnings.size()) {
    text += sentence(fmt::format("note: {} more, with --wide", warnings.size() - shown),
                     width_for(options));
  }
  return text;
}

}  // namespace

std::string render(const ExplainedFile& file, const ExplainText& options, const Painter& paint) {
  std::string text = file_line(file, width_for(options));
  for (const ExplainedDevice& device : file.devices) {
    text += '\n' + DeviceText{file, device, options, paint, false}.run();
  }
  for (const ExplainedFile& host : file.host) {
    for (const ExplainedDevice& device : host.devices) {
      text += '\n' + DeviceText{host, device, options, paint, true}.run();
    }
  }
  if (file.devices.empty()) text += "it has no memory to explain\n";
  const std::string warnings = warnings_of(file, options);
  return warnings.empty() ? text : text + '\n' + warnings;
}

std::string render(const ExplainedFile& first, const ExplainedFile& second,
                   const std::vector<DeviceDifference>& devices, const ExplainText& options,
                   const Painter& paint) {
  const std::size_t width = width_for(options);
  std::string text = sentence(fmt::format("from {} to {}", first.file, second.file), width);
  for (const DeviceDifference& device : devices) {
    const SizeUnit unit{std::max(device.first, device.second)};
    const auto change = static_cast<std::int64_t>(device.second - device.first);
    text += '\n' +
            sentence(fmt::format("device {}: {} from {} to {} {} at the peak, {}", device.device,
                                 device.of_reserved ? "reserved" : "live", unit.plain(device.first),
                                 unit.plain(device.second), unit.name(), change_in_words(change)),
                     width);
    if (device.rows.empty()) continue;
    List table{{"what changed", "size", "blocks", "what", "stream"}};
    const std::size_t shown = std::min(device.rows.size(), options.wide ? kEverything : kChanges);
    for (std::size_t i = 0; i < shown; ++i) {
      const MemoryDifference& row = device.rows[i];
      const auto blocks = static_cast<std::int64_t>(row.second_blocks - row.first_blocks);
      table.add_row({cell(row.site),
                     cell(change_in_words(row.change()), row.change() > 0 ? Look::bad : Look::good),
                     cell(signed_number(blocks)), cell(to_string(row.part)), cell(row.stream)});
    }
    std::int64_t others = 0;
    for (std::size_t i = shown; i < device.rows.size(); ++i) others += device.rows[i].change();
    if (shown < device.rows.size()) {
      table.add_row({cell(fmt::format("{} more, with --wide", device.rows.size() - shown)),
                     cell(change_in_words(others))});
    }
    text += table.render(paint, width);
  }
  return text;
}

}  // namespace millrace::cli
