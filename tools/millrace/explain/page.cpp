#include "explain/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "explain/moment_text.hpp"
#include "explain/page_blocks.hpp"
#include "explain/page_order.hpp"
#include "explain/page_segments.hpp"
#include "explain/page_tables.hpp"
#include "explain/sentences.hpp"
#include "explain/words.hpp"
#include "millrace/observe/explain_difference.hpp"

namespace millrace::cli {
namespace {

/** Makes the page's run from one file. */
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
      const unsigned use = ++uses[{device, name}];  // numbers and handles are reused
      if (use > 1) name += fmt::format(" ({})", use);
      run_.streams.push_back({.device = device, .name = std::move(name)});
      run_.devices = std::max(run_.devices, device + 1);
    }
  }

  /** Adds the numbers that the program uses for events: the position in the device's trace, or the
   * line. */
  void add_events() {
    run_.event_word = trace::has_lines(log_.format) ? "line" : "event";
    if (first_ == 1) run_.positions.push_back(kUnknown);
    for (const trace::LogEvent& event : log_.events) {
      run_.positions.push_back(
          static_cast<std::uint32_t>(std::min<std::uint64_t>(event.position, kUnknown - 1)));
    }
    if (run_.devices == 1) return;
    if (first_ == 1) run_.devices_of_events.push_back(kUnknown);
    for (const trace::LogEvent& event : log_.events) run_.devices_of_events.push_back(event.device);
  }

  // The clocks of several devices are interleaved, but the page's clock must ascend.
  void add_times() {
    const bool has_times =
        trace::has_clock(log_.format) && !log_.times_are_positions &&
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

  /** The page's time of an event; 0, the beginning, without an event. */
  [[nodiscard]] double at(std::optional<std::size_t> event) const {
    if (!event) return 0;
    const std::size_t place = first_ + *event;
    return run_.times_us.empty() ? static_cast<double>(place) : run_.times_us[place];
  }

  // Adds only the stacks of blocks. Many blocks share a stack.
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

  /** Adds the labels of blocks. */
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

  /** Adds the sites. Several sites may share a name: different stacks that contain the same line of
   * the program. */
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
      add_sentences(run_, sentences, device.memory.device);
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
    const std::uint32_t number = device.memory.device;
    if (device.memory.failure)
      add_part_rows(run_, number, device.memory.failure->memory, "where it is at the failure");
    add_part_rows(run_, number, peak, "where it is at the peak");
    add_what_if(run_, device);
    add_share_rows(run_, file_, device, "not live, by site", "");
  }

  /** Adds the peak and the parts of pinned host memory. It has no tracks. */
  void add_host() {
    for (const ExplainedFile& host : file_.host) {
      for (const ExplainedDevice& device : host.devices) {
        add_sentences(run_, peak_sentences(host, device));
        add_part_rows(run_, device.memory.device, device.memory.peak,
                      "pinned host memory at its peak");
        add_share_rows(run_, host, device, "pinned host memory that is not live, by site", "host ");
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

  void mark(PageMark::Kind kind, std::string text, std::optional<std::size_t> event,
            const ExplainedDevice& device) {
    run_.marks.push_back({.kind = kind,
                          .text = std::move(text),
                          .begin = at(event),
                          .end = at(event),
                          .device = device.memory.device,
                          .event = event ? first_ + static_cast<PageEvent>(*event) : 0});
  }

  // Arrows start at the work that a mark covers, and end at the next work of the waiting stream.
  void add_arrows() {
    std::vector<std::uint32_t> arrows;  // index: number of the wait
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

  // Ranges with the same name may be nested. Each end closes the most recent begin.
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
  const PageEvent first_;  ///< the page's number of the log's first event
  std::int64_t origin_ = 0;
  PageIndices indices_;
};

}  // namespace

PageData page_data_of(const ExplainedFile& file, const ExplainedFile* against) {
  PageData page;
  page.title = file.file;
  page.runs.push_back(RunMaker{file}.run());
  if (against != nullptr) {
    page.title += " against " + against->file;
    page.runs.push_back(RunMaker{*against}.run());
    add_change_rows(page.runs.front(), difference(against->explanation, file.explanation));
  }
  return page;
}

}  // namespace millrace::cli
