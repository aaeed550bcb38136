#include "explain/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cli/page.hpp"
#include "cli/wording.hpp"
#include "explain/list.hpp"
#include "explain/moment_text.hpp"
#include "explain/sentences.hpp"
#include "explain/words.hpp"
#include "millrace/memory/byte_size.hpp"

namespace millrace::cli {
namespace {

constexpr std::size_t kNarrowPage = 80;
constexpr std::size_t kChanges = 8;
constexpr std::size_t kWarnings = 3;
constexpr std::size_t kAllRows = SIZE_MAX;

std::size_t width_for(const ExplainText& options) {
  return options.wide ? page_width() : std::min(page_width(), kNarrowPage);
}

std::string sentence(const std::string& text, std::size_t width, std::size_t indent = 0) {
  return std::string(indent, ' ') + wrap(printable(text), width - indent, indent + 2) + '\n';
}

TextTable::Cell cell(std::string text, Look look = Look::plain) { return {std::move(text), look}; }

/** The text about one device. */
class DeviceText {
 public:
  DeviceText(const ExplainedFile& file, const ExplainedDevice& device, const ExplainText& options,
             const Painter& paint, bool is_host)
      : file_(file),
        device_(device),
        peak_(device.memory.peak),
        moment_(file, options.wide, width_for(options), paint),
        paint_(paint),
        width_(width_for(options)),
        wide_(options.wide),
        is_host_(is_host),
        unit_(peak_.reserved.value_or(device.memory.most_live)) {}

  std::string run() {
    if (device_.memory.failure) add_failure(*device_.memory.failure);
    for (const std::string& line : peak_sentences(file_, device_)) add(line);
    text_ += moment_.parts(peak_);
    // With a failure, the holders at the failure matter more.
    if (!device_.memory.failure || wide_) text_ += moment_.holders(peak_);
    if (!is_host_) {
      add_rows();
      add_advice();
    }
    return text_;
  }

 private:
  void add(const std::string& text) { text_ += sentence(text, width_); }

  void add_failure(const FailedRequest& failed) {
    for (const std::string& line : failure_sentences(file_, device_.memory)) add(line);
    const std::string served = served_sentence(device_);
    if (!served.empty()) add(served);
    text_ += moment_.parts(failed.memory) + moment_.holders(failed.memory) + '\n';
  }

  void add_rows() {
    if (device_.rows.empty()) {
      if (!device_.left_out.empty()) text_ += '\n';
      return add_left_out();
    }
    const bool retries = std::ranges::any_of(
        device_.rows, [](const WhatIfRow& row) { return row.serves_failed.has_value(); });
    std::vector<std::string> titles{"what it would have reserved", unit_.name(), "/ live"};
    if (retries) titles.emplace_back("what failed");
    List table{std::move(titles)};
    const std::uint64_t live = device_.memory.most_live;
    const auto add_row = [&](const std::string& name, std::uint64_t bytes, Look look,
                             const std::optional<bool>& serves = {}) {
      std::vector<TextTable::Cell> cells{
          cell(name), cell(unit_.plain(bytes), look),
          cell(live == 0 ? "–"
                         : fmt::format("{:.3f}",
                                       static_cast<double>(bytes) / static_cast<double>(live)))};
      if (serves) cells.push_back(cell(*serves ? "is served" : "fails"));
      table.add_row(std::move(cells));
    };
    if (peak_.reserved) add_row("recorded", *peak_.reserved, Look::strong);
    std::string failures;
    for (const WhatIfRow& row : device_.rows) {
      if (row.reserved)
        add_row(row.name(), *row.reserved, Look::plain, row.serves_failed);
      else
        failures += sentence(row.name() + ": out of memory: " + row.failure, width_);
    }
    if (device_.packed) add_row(kPackedName, *device_.packed, Look::plain);
    add_row("most live at once", live, Look::plain);
    text_ += '\n' + table.render(paint_, width_) + failures;
    add_left_out();
    if (device_.limit.bytes > 0)
      add(fmt::format("the replays run on {}",
                      in_words(device_.limit, file_.log.snapshot.has_value())));
    add_notes();
  }

  void add_notes() {
    const std::size_t shown = std::min(device_.notes.size(), wide_ ? kAllRows : kWarnings);
    for (std::size_t i = 0; i < shown; ++i) add("note: " + device_.notes[i]);
    if (shown < device_.notes.size())
      add(fmt::format("note: {} more, with --wide", device_.notes.size() - shown));
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
  const MemoryMoment& peak_;
  const MomentText moment_;
  const Painter& paint_;
  const std::size_t width_;
  const bool wide_;
  const bool is_host_;  ///< pinned host memory, which is not replayed
  const SizeUnit unit_;
  std::string text_;
};

std::string file_line(const ExplainedFile& file, std::size_t width) {
  std::size_t allocations = 0, frees = 0;
  for (const trace::LogEvent& event : file.log.events) {
    allocations += event.kind == trace::EventKind::allocate ? 1 : 0;
    frees += event.kind == trace::EventKind::free_requested ? 1 : 0;
  }
  return sentence(fmt::format("{} ({}): {}, {}", file.file, trace::to_string(file.log.format),
                              counted(allocations, "allocation"), counted(frees, "free")),
                  width);
}

std::string warnings_of(const ExplainedFile& file, const ExplainText& options) {
  std::vector<std::string> warnings = file.log.warnings;
  if (file.log.addresses_are_made_up) {
    warnings.insert(warnings.begin(),
                    "the recording made up the addresses: what lay beside what is not known");
  }
  const std::size_t shown = std::min(warnings.size(), options.wide ? kAllRows : kWarnings);
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
    const std::size_t shown = std::min(device.rows.size(), options.wide ? kAllRows : kChanges);
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
