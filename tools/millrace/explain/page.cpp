#include "explain/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "explain/moment_text.hpp"
#include "explain/page_blocks.hpp"
#include "explain/page_order.hpp"
#include "explain/page_segments.hpp"
#include "explain/sentences.hpp"
#include "explain/words.hpp"
#include "millrace/observe/explain_difference.hpp"

namespace millrace::cli {
namespace {

/** Makes the run of a page from one file. */
class RunMaker {
 public:
  explicit RunMaker(const ExplainedFile& file)
      : file_(file), log_(file.log), first_(first_event_of(file.log)) {}

  PageRun run() {
    run_.name = file_.file;
    run_.meta = {{"format", trace::to_string(log_.format)}};
    if (log_.snapshot && !log_.snapshot->settings.configuration.empty()) {
      run_.meta.emplace_back("PYTORCH_ALLOC_CONF", log_.snapshot->settings.configuration);
    }
    if (log_.addresses_are_made_up) {
      run_.meta.emplace_back("addresses", "made up by the recording: the map shows no real gaps");
    }
    if (log_.times_are_positions) {
      run_.meta.emplace_back("axis", "events: the trace has no times of a clock");
    }
    run_.events = first_ + static_cast<PageEvent>(log_.events.size());
    add_streams();
    add_events();
    add_times();
    add_stacks();
    add_tags();
    add_sites();
    run_.blocks = page_blocks_of(log_, file_.explanation, indices_);
    add_page_segments(run_, log_, file_.explanation);
    for (const ExplainedDevice& device : file_.devices) add_device(device);
    add_host();
    add_notes();
    add_arrows();
    add_annotations();
    return std::move(run_);
  }

 private:
  void add_streams() {
    const std::vector<std::string> names = stream_names(file_.explanation, false);
    std::map<std::pair<std::uint32_t, std::string>, unsigned> uses;
    for (std::uint32_t i = 0; i < file_.explanation.streams.size(); ++i) {
      const std::uint32_t device = file_.explanation.streams[i].device;
      std::string name = short_stream(names[i]);
      const unsigned use = ++uses[{device, name}];  // numbers and handles are used again
      if (use > 1) name += fmt::format(" ({})", use);
      run_.streams.push_back({.device = device, .name = std::move(name)});
      run_.devices = std::max(run_.devices, device + 1);
    }
  }

  /** What the program calls an event: its number in the device's trace, or its line. */
  void add_events() {
    const bool has_lines =
        log_.format == trace::TraceFormat::rmm_log || log_.format == trace::TraceFormat::lifetimes;
    run_.event_word = has_lines ? "line" : "event";
    if (first_ == 1) run_.positions.push_back(kUnknown);
    for (const trace::LogEvent& event : log_.events) {
      run_.positions.push_back(
          static_cast<std::uint32_t>(std::min<std::uint64_t>(event.position, kUnknown - 1)));
    }
    if (run_.devices == 1) return;
    if (first_ == 1) run_.devices_of_events.push_back(kUnknown);
    for (const trace::LogEvent& event : log_.events) run_.devices_of_events.push_back(event.device);
  }

  // Clocks of devices are interleaved, and the page's ascends.
  void add_times() {
    const bool has_times =
        log_.format != trace::TraceFormat::lifetimes && !log_.times_are_positions &&
        std::ranges::any_of(log_.events, [](const auto& event) { return event.time_us != 0; });
    if (!has_times) return;
    origin_ = log_.events.front().time_us;
    double latest = 0;
    if (first_ == 1) run_.times_us.push_back(0);
    for (const trace::LogEvent& event : log_.events) {
      latest = std::max(latest, clock(event.time_us));
      run_.times_us.push_back(latest);
    }
  }

  [[nodiscard]] double clock(std::int64_t time_us) const {
    return static_cast<double>(time_us) - static_cast<double>(origin_);
  }

  /** The page's time of an event; of the beginning for none. */
  [[nodiscard]] double at(std::optional<std::size_t> event) const {
    if (!event) return 0;
    const std::size_t place = first_ + *event;
    return run_.times_us.empty() ? static_cast<double>(place) : run_.times_us[place];
  }

  // Only the stacks of blocks, of which many share one.
  void add_stacks() {
    for (trace::StackTable::FrameId i = 0; i < log_.stacks.frame_count(); ++i) {
      const trace::StackFrame& frame = log_.stacks.at(i);
      const auto line = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(frame.line, std::numeric_limits<std::uint32_t>::max()));
      run_.frames.push_back({.function = frame.function, .file = frame.file, .line = line});
    }
    std::vector<std::uint32_t>& stacks = indices_.stacks;
    stacks.assign(log_.stacks.stack_count() + 1, kUnknown);
    for (const trace::LoggedBlock& block : log_.blocks) {
      if (block.stack == trace::StackTable::kNone || stacks[block.stack] != kUnknown) continue;
      stacks[block.stack] = static_cast<std::uint32_t>(run_.stacks.size());
      run_.stacks.push_back(log_.stacks.frames_of(block.stack));
    }
  }

  /** The labels of blocks. */
  void add_tags() {
    std::vector<std::uint32_t>& tags = indices_.tags;
    tags.assign(log_.labels.size(), kUnknown);
    tags.resize(std::max<std::size_t>(tags.size(), trace::LabelTable::kNone + 1), kUnknown);
    for (const trace::LoggedBlock& block : log_.blocks) {
      if (block.label == trace::LabelTable::kNone || tags[block.label] != kUnknown) continue;
      tags[block.label] = static_cast<std::uint32_t>(run_.tags.size());
      run_.tags.push_back(log_.labels.at(block.label));
    }
  }

  /** Several sites may have one name: other stacks that have the same line of the program. */
  void add_sites() {
    const BlockSites found = sites_of_blocks(log_);
    std::unordered_map<std::string, std::uint32_t> by_name;
    std::vector<std::uint32_t> indices;
    for (const ExplainedSite& site : found.sites) {
      const auto [known, fresh] =
          by_name.try_emplace(site.name, static_cast<std::uint32_t>(run_.sites.size()));
      if (fresh) run_.sites.push_back(site.name);
      indices.push_back(known->second);
    }
    for (const std::uint32_t site : found.by_block) indices_.sites.push_back(indices[site]);
  }

  void add_device(const ExplainedDevice& device) {
    const auto add = [&](const std::vector<std::string>& sentences) {
      run_.summary.insert(run_.summary.end(), sentences.begin(), sentences.end());
    };
    add(failure_sentences(file_, device.memory));
    if (const std::string served = served_sentence(device); !served.empty()) add({served});
    add(peak_sentences(file_, device));
    add(advice_sentences(file_, device, true));
    const MemoryMoment& peak = device.memory.peak;
    run_.knows_rounding = peak.knows(MemoryPart::rounding);
    if (peak.asker.stream < run_.streams.size()) {
      run_.askers.push_back({.device = device.memory.device,
                             .stream = peak.asker.stream,
                             .pool = page_pool_of(run_, peak.asker.pool),
                             .shares = device.memory.shares_streams && peak.reserved.has_value()});
    }
    mark(PageMark::Kind::peak, peak_sentences(file_, device).front(), peak.event, device);
    if (device.memory.failure) {
      mark(PageMark::Kind::out_of_memory, failure_sentences(file_, device.memory).front(),
           device.memory.failure->event, device);
    }
    add_parts(device, "where it is at the peak");
    add_what_if(device);
    add_shares(file_, device, "not live, by site", "");
  }

  /** Pinned host memory, which has no tracks: its peak and its parts. */
  void add_host() {
    for (const ExplainedFile& host : file_.host) {
      for (const ExplainedDevice& device : host.devices) {
        const std::vector<std::string> sentences = peak_sentences(host, device);
        run_.summary.insert(run_.summary.end(), sentences.begin(), sentences.end());
        add_parts(device, "pinned host memory at its peak");
        add_shares(host, device, "pinned host memory that is not live, by site", "host ");
      }
    }
  }

  void add_notes() {
    constexpr std::size_t most = 20;
    const std::vector<std::string>& warnings = log_.warnings;
    for (std::size_t i = 0; i < std::min(warnings.size(), most); ++i)
      run_.meta.emplace_back("note", warnings[i]);
    if (warnings.size() > most)
      run_.meta.emplace_back("note", fmt::format("and {} more", warnings.size() - most));
    for (const ExplainedDevice& device : file_.devices) {
      if (device.limit.bytes > 0) {
        run_.meta.emplace_back("replays",
                               "run on " + in_words(device.limit, log_.snapshot.has_value()));
      }
      for (const std::string& note : device.notes) run_.meta.emplace_back("note", note);
      if (!device.left_out.empty()) run_.meta.emplace_back("left out", device.left_out);
    }
  }

  /** What is reserved and not live: by site, by stream and by pool. */
  void add_shares(const ExplainedFile& file, const ExplainedDevice& device, const char* by_site,
                  const std::string& prefix) {
    const std::vector<std::string> streams = stream_names(file.explanation, false);
    const std::vector<StreamBytes> by_stream = bytes_by_stream(file, device.memory.peak);
    std::map<std::string, ShareRow> sites, of_streams, of_pools;
    for (const MemoryShare& share : device.memory.peak.shares) {
      const bool is_held = share.part == MemoryPart::live || share.part == MemoryPart::rounding ||
                           share.part == MemoryPart::rest;
      if (is_held) continue;
      const std::string stream = share.stream == MemoryShare::kNoStream
                                     ? std::string{"stream not known"}
                                     : short_stream(streams[share.stream]);
      add_share(sites[fmt::format("{}\n{}\n{}", file.site(share), to_string(share.part), stream)],
                share);
      if (share.part == MemoryPart::stream) add_share(of_streams[stream], share);
      if (share.part == MemoryPart::pool) add_share(of_pools[pool_name(share.pool)], share);
    }
    const std::uint32_t number = device.memory.device;
    add_rows(by_site, number, sites, [&](const ShareRow& row) {
      const std::string stream = row.share.stream == MemoryShare::kNoStream
                                     ? std::string{}
                                     : ", on " + short_stream(streams[row.share.stream]);
      return fmt::format("{}{}; usable: {}", to_string(row.share.part), stream,
                         usable(file, row.share));
    });
    add_rows((prefix + "free on other streams").c_str(), number, of_streams,
             [&](const ShareRow& row) {
               const auto of = std::ranges::find(by_stream, row.share.stream, &StreamBytes::stream);
               return last_use(file.log, *of);
             });
    add_rows((prefix + "free in other pools").c_str(), number, of_pools,
             [](const ShareRow&) { return std::string{"usable in its pool only"}; });
  }

  /** Shares that are one row. */
  struct ShareRow {
    MemoryShare share;
    bool is_new = true;
  };

  static void add_share(ShareRow& row, const MemoryShare& share) {
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
  void add_rows(const char* title, std::uint32_t device,
                const std::map<std::string, ShareRow>& shares, Note note) {
    if (shares.empty()) return;
    std::vector<const std::pair<const std::string, ShareRow>*> order;
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
        rows.rows.push_back({.label = name.substr(0, name.find('\n')),
                             .bytes = row.share.bytes,
                             .note = note(row)});
    }
    if (rest > 0)
      rows.rows.push_back(
          {.label = fmt::format("{} more", order.size() - most), .bytes = rest, .note = {}});
    run_.tables.push_back(std::move(rows));
  }

  void mark(PageMark::Kind kind, std::string text, std::optional<std::size_t> event,
            const ExplainedDevice& device) {
    run_.marks.push_back({.kind = kind,
                          .text = std::move(text),
                          .begin = at(event),
                          .end = at(event),
                          .device = device.memory.device,
                          .event = event ? first_ + static_cast<PageEvent>(*event) : 0});
  }

  void add_parts(const ExplainedDevice& device, const char* title) {
    const MemoryMoment& peak = device.memory.peak;
    PageRows rows{.title = title, .device = device.memory.device, .rows = {}};
    for (std::size_t i = 0; i < kMemoryParts; ++i) {
      const auto part = static_cast<MemoryPart>(i);
      PageRow row{.label = to_string(part), .bytes = {}, .note = meaning(part)};
      if (peak.knows(part))
        row.bytes = peak.bytes(part);
      else
        row.note += "; not in this log";
      rows.rows.push_back(std::move(row));
    }
    run_.tables.push_back(std::move(rows));
  }

  void add_what_if(const ExplainedDevice& device) {
    PageRows rows{
        .title = "what it would have reserved", .device = device.memory.device, .rows = {}};
    rows.rows.push_back({.label = "recorded",
                         .bytes = device.memory.peak.reserved,
                         .note = device.memory.peak.reserved ? "" : "not in this log"});
    for (const WhatIfRow& row : device.rows) {
      const bool advised = !device.advice.empty() && device.advice.front().row == row.name();
      std::string note = row.failure;
      if (row.waits > 0) note = fmt::format("a stream waits for another {} times", row.waits);
      if (advised) note = "its cost: " + device.advice.front().cost;
      rows.rows.push_back({.label = row.name(),
                           .bytes = row.reserved,
                           .note = std::move(note),
                           .emphasized = advised});
    }
    rows.rows.push_back({.label = kPackedName,
                         .bytes = device.packed,
                         .note = device.packed
                                     ? "with knowledge of the future; replay may find a lower one"
                                     : "not computed"});
    rows.rows.push_back({.label = "most live at once",
                         .bytes = device.memory.most_live,
                         .note = "nothing can hold the requests in less"});
    run_.tables.push_back(std::move(rows));
  }

  // From what the mark covers to what the waiting stream did next.
  void add_arrows() {
    std::vector<std::uint32_t> arrows;  // by wait
    if (!log_.order.empty() && !log_.events.empty()) arrows = add_waits();
    for (PageBlock& block : run_.blocks)
      block.wait = block.wait < arrows.size() ? arrows[block.wait] : kUnknown;
  }

  std::vector<std::uint32_t> add_waits() {
    std::vector<std::uint32_t> arrows;
    PageOrder order{log_};
    order.advance(log_.events.size());
    if (order.is_cut())
      run_.meta.emplace_back("order", "too long to be followed whole: later waits are left out");
    const auto place = [&](const trace::LoggedOrder& step) {
      const std::uint64_t last = log_.events.size() - 1;
      return at(static_cast<std::size_t>(std::min<std::uint64_t>(step.before, last)));
    };
    for (const PageOrder::Wait& wait : order.waits()) {
      const trace::LoggedOrder &mark = log_.order[wait.mark], &waits = log_.order[wait.wait];
      arrows.push_back(kUnknown);
      if (mark.stream == waits.stream) continue;
      arrows.back() = static_cast<std::uint32_t>(run_.arrows.size());
      run_.arrows.push_back({.from_stream = mark.stream,
                             .to_stream = waits.stream,
                             .from = place(mark),
                             .to = place(waits)});
    }
    return arrows;
  }

  // Ranges with one name may be nested; each end closes the latest begin.
  void add_annotations() {
    if (!log_.snapshot || run_.times_us.empty()) return;
    std::map<std::pair<std::uint32_t, trace::LabelTable::Id>, std::vector<double>> open;
    for (const trace::TorchMark& mark : log_.snapshot->marks) {
      std::vector<double>& begins = open[{mark.device, mark.name}];
      if (mark.begins) {
        begins.push_back(clock(mark.time_us));
      } else if (!begins.empty()) {
        run_.marks.push_back({.kind = PageMark::Kind::annotation,
                              .text = log_.labels.at(mark.name),
                              .begin = begins.back(),
                              .end = clock(mark.time_us),
                              .device = mark.device < run_.devices ? mark.device : kUnknown});
        begins.pop_back();
      }
    }
  }

  const ExplainedFile& file_;
  const trace::AllocationLog& log_;
  PageRun run_;
  const PageEvent first_;  ///< the page's event that is the first one of the log
  std::int64_t origin_ = 0;
  PageIndices indices_;
};

/** What grew since the earlier file, by part, stream and site. */
void add_changes(PageRun& run, const std::vector<DeviceDifference>& devices) {
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

}  // namespace

PageData page_data_of(const ExplainedFile& file, const ExplainedFile* against) {
  PageData page;
  page.title = file.file;
  page.runs.push_back(RunMaker{file}.run());
  if (against != nullptr) {
    page.title += " against " + against->file;
    page.runs.push_back(RunMaker{*against}.run());
    add_changes(page.runs.front(), difference(against->explanation, file.explanation));
  }
  return page;
}

}  // namespace millrace::cli
