#include "explain/moment_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "cli/page.hpp"
#include "explain/list.hpp"
#include "explain/words.hpp"
#include "millrace/memory/byte_size.hpp"

namespace millrace::cli {
namespace {

constexpr std::size_t kHolders = 5;  // rows per list on the first screen
constexpr std::size_t kStreams = 3;
constexpr std::size_t kEverything = SIZE_MAX;

TextTable::Cell plain_cell(std::string text) { return {std::move(text), Look::plain}; }

/** Joins the shares of one site: the same line of the program on the same stream. */
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
    sum.first = std::min(sum.first, share.first);  // std::nullopt is the beginning
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

}  // namespace

std::vector<StreamBytes> bytes_by_stream(const ExplainedFile& file, const MemoryMoment& moment) {
  std::map<std::uint32_t, StreamBytes> streams;
  for (const MemoryShare& share : moment.shares) {
    if (share.part != MemoryPart::stream) continue;
    StreamBytes& of = streams[share.stream];
    of.stream = share.stream;
    of.bytes += share.bytes;
    const bool used = file.explanation.sites[share.site].kind != SiteKind::unused;
    if (used && !of.was_used) of.freed.reset();
    if (used || !of.was_used) of.freed = std::max(of.freed, share.last);
    of.was_used |= used;
  }
  std::vector<StreamBytes> rows;
  for (const auto& [stream, sum] : streams) rows.push_back(sum);
  std::ranges::stable_sort(rows, std::greater{}, &StreamBytes::bytes);
  return rows;
}

std::string last_use(const trace::AllocationLog& log, const StreamBytes& bytes) {
  return (bytes.was_used ? "last freed at " : "not used since it was acquired at ") +
         event_name(log, bytes.freed);
}

MomentText::MomentText(const ExplainedFile& file, bool wide, std::size_t width,
                       const Painter& paint)
    : file_(file),
      streams_(stream_names(file.explanation, false)),
      wide_(wide),
      width_(width),
      paint_(paint) {}

std::string MomentText::parts(const MemoryMoment& moment) const {
  if (!moment.reserved) return "";
  std::string text = "\n";
  for (std::size_t i = 0; i < kMemoryParts; ++i) {
    const auto part = static_cast<MemoryPart>(i);
    const std::uint64_t bytes = moment.bytes(part);
    if (bytes == 0) continue;
    text += fmt::format("  {:<10} {:>10}  {:>4}  {}\n", to_string(part), format_bytes(bytes),
                        share_of(bytes, *moment.reserved), detail(moment, part));
    if (part == MemoryPart::stream) text += by_stream(moment);
    if (part == MemoryPart::pool) text += by_pool(moment);
  }
  return text;
}

std::string MomentText::holders(const MemoryMoment& moment) const {
  std::string text = list("live, by site", moment, is_live);
  if (moment.reserved) text += list("not live, by site", moment, is_kept);
  return text;
}

// Lists the streams that have free memory, each with its last free. After the stream's work up to
// that time, other streams could use the memory.
std::string MomentText::by_stream(const MemoryMoment& moment) const {
  const std::vector<StreamBytes> rows = bytes_by_stream(file_, moment);
  const std::size_t shown = std::min(rows.size(), wide_ ? kEverything : kStreams);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    constexpr std::size_t indent = 4;
    const std::string line = fmt::format("{} of it {}, {}", format_bytes(rows[i].bytes),
                                         on_stream(file_.explanation, streams_, rows[i].stream),
                                         last_use(file_.log, rows[i]));
    text += std::string(indent, ' ') + wrap(printable(line), width_ - indent, indent + 2) + '\n';
  }
  return text + and_more(rows.size() - shown, "on", "stream");
}

std::string MomentText::by_pool(const MemoryMoment& moment) const {
  std::map<trace::TorchPool, std::uint64_t> pools;
  for (const MemoryShare& share : moment.shares) {
    if (share.part == MemoryPart::pool) pools[share.pool] += share.bytes;
  }
  std::vector<std::pair<trace::TorchPool, std::uint64_t>> rows{pools.begin(), pools.end()};
  std::ranges::stable_sort(rows, std::greater{},
                           &std::pair<trace::TorchPool, std::uint64_t>::second);
  const std::size_t shown = std::min(rows.size(), wide_ ? kEverything : kStreams);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    text +=
        fmt::format("    {} of it in {}\n", format_bytes(rows[i].second), pool_name(rows[i].first));
  }
  return text + and_more(rows.size() - shown, "in", "pool");
}

std::string MomentText::and_more(std::size_t count, const char* where, const char* what) {
  if (count == 0) return "";
  return fmt::format("    and {} {} more {}{}\n", where, count, what, count == 1 ? "" : "s");
}

std::string MomentText::detail(const MemoryMoment& moment, MemoryPart part) {
  std::string text = meaning(part);
  // The reserved bytes grew for this request, so no free memory served it.
  if (part == MemoryPart::soft && moment.asker.requests) text += "; none served this request";
  if (part != MemoryPart::stream && part != MemoryPart::pool) return text;
  std::uint64_t whole = 0;
  for (const MemoryShare& share : moment.shares) {
    if (share.part == part && share.whole) whole += share.bytes;
  }
  return text + fmt::format(", {} of it whole segments", share_of(whole, moment.bytes(part)));
}

std::string MomentText::list(const std::string& title, const MemoryMoment& moment,
                             bool (*counts)(MemoryPart)) const {
  const std::vector<MemoryShare> rows = merged(file_, moment.shares, counts);
  if (rows.empty()) return "";
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
        plain_cell(file_.site(row)), plain_cell(format_bytes(row.bytes)),
        plain_cell(fmt::format("{}", row.blocks)),
        plain_cell(live ? short_stream(streams_[row.stream]) : to_string(row.part))};
    // Live blocks: since the first allocation. Other memory: since the last free.
    if (wide_) cells.push_back(plain_cell(since(row)));
    cells.push_back(plain_cell(usable(file_, row)));
    table.add_row(std::move(cells));
  }
  std::uint64_t others = 0;
  for (std::size_t i = shown; i < rows.size(); ++i) others += rows[i].bytes;
  if (others > 0) {
    table.add_row({plain_cell(fmt::format("{} more, with --wide", rows.size() - shown)),
                   plain_cell(format_bytes(others))});
  }
  return '\n' + table.render(paint_, width_);
}

std::string MomentText::since(const MemoryShare& row) const {
  if (row.part == MemoryPart::driver) return "not known";
  return event_name(file_.log, is_live(row.part) ? row.first : row.last);
}

}  // namespace millrace::cli
