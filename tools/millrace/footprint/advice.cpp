#include "footprint/advice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "cli/advice_lines.hpp"
#include "cli/page.hpp"
#include "cli/published.hpp"
#include "cli/wording.hpp"
#include "footprint/changes.hpp"
#include "millrace/text/units.hpp"

namespace millrace::cli {
namespace {

double bytes(std::size_t value) { return static_cast<double>(value); }

/** A level of the ladder: its size and its meaning. */
struct Step {
  std::string_view name;
  std::string_view meaning;
  std::string_view less;  ///< why a row has fewer of these bytes
  std::string_view more;
  std::size_t (*size)(const FootprintFigures&);
};

constexpr std::array<Step, 5> kSteps{{
    {"live", "what is alive at once", "less is alive at once", "more is alive at once",
     [](const FootprintFigures& f) { return f.requested; }},
    {"round", "rounding of sizes", "sizes are rounded up less", "sizes are rounded up more",
     [](const FootprintFigures& f) { return f.rounding(); }},
    {"streams", "free blocks that the requesting stream cannot use yet",
     "fewer free blocks wait for another stream's work",
     "more free blocks wait for another stream's work",
     [](const FootprintFigures& f) { return f.streams(); }},
    {"packing", "gaps, since blocks are contiguous", "blocks leave fewer gaps",
     "blocks leave more gaps", [](const FootprintFigures& f) { return f.packing(); }},
    {"policy", "memory kept where other streams cannot use it, or acquired too early",
     "less free memory is kept apart", "more free memory is kept apart",
     [](const FootprintFigures& f) { return f.policy(); }},
}};

constexpr std::size_t kLeastReported = std::size_t{64} << 20;

std::map<std::string, std::size_t> idle_by_stream(const FootprintRow& row) {
  std::map<std::string, std::size_t> idle;
  for (const LadderShare& share : row.example.ladder.idle) {
    idle[row.stream_name(share.stream)] += share.bytes;
  }
  return idle;
}

/** For the level "streams": which blocks wait for the work of which stream. */
std::string blocks_behind(const FootprintRow& row) {
  std::map<std::string, std::map<std::string, std::size_t>> behind;
  for (const LadderShare& share : row.example.ladder.heaviest) {
    if (!share.waits_for.valid()) continue;
    behind[row.stream_name(share.waits_for)][share.tag] += share.bytes;
  }
  std::vector<std::string> texts;
  for (const auto& [stream, tags] : behind) {
    std::vector<std::string> parts;
    for (const auto& [tag, size] : tags) {
      if (size >= kLeastReported) parts.push_back(fmt::format("{} {}", tag, gib(size)));
    }
    if (!parts.empty()) {
      texts.push_back(fmt::format("{} GiB waiting for {}'s work", fmt::join(parts, ", "), stream));
    }
  }
  return texts.empty() ? "" : fmt::format(": {}", fmt::join(texts, ", "));
}

std::string held(const FootprintRow& row) {
  return held_line(full_name(row), gib(row.figures.reserved) + " GiB",
                   gib(row.figures.requested) + " GiB");
}

std::string explain_usual(const FootprintRow& row) {
  const FootprintFigures& f = row.figures;
  std::string text = held(row);
  for (const Step& step : kSteps) {
    const std::size_t size = step.size(f);
    if (step.name == "live" || bytes(size) < 0.01 * bytes(f.reserved)) continue;
    text += fmt::format(" {} GiB more are the step of {}: {}{}.", gib(size), step.name,
                        step.meaning, step.name == "streams" ? blocks_behind(row) : "");
  }
  std::vector<std::string> idle;
  for (const auto& [stream, size] : idle_by_stream(row)) {
    if (size >= kLeastReported) idle.push_back(fmt::format("{} {}", stream, gib(size)));
  }
  if (!idle.empty()) {
    text += fmt::format(" Free at the peak of live memory, by last user: {} GiB.",
                        fmt::join(idle, ", "));
  }
  return text;
}

/** "; 0.55 to 2.76 over the seeds"; "" for one seed. */
std::string range_of(const Spread& saving, std::size_t seeds) {
  if (seeds == 1) return "";
  return fmt::format("; {} to {} over the seeds", gib_plain(saving.least), gib_plain(saving.most));
}

std::string saving(const FootprintRow& from, const FootprintRow& to) {
  const Spread saving = to.saving(from);
  const double share = std::abs(saving.median) / bytes(from.figures.reserved);
  return fmt::format("{} {} GiB {} {} ({}{}).", saving.median < 0 ? "Takes" : "Saves",
                     gib_plain(std::abs(saving.median)), saving.median < 0 ? "more than" : "of",
                     gib(from.figures.reserved), percent(share),
                     range_of(saving, to.by_seed.size()));
}

/** Free memory by its last user, in both rows. */
std::string idle_change(const FootprintRow& from, const FootprintRow& to) {
  if (!from.knows_usable() || !to.knows_usable()) {
    return "; the users of free memory are unknown, since the driver's pool does not show them";
  }
  std::map<std::string, std::array<std::size_t, 2>> idle;
  for (const auto& [stream, size] : idle_by_stream(from)) idle[stream][0] = size;
  for (const auto& [stream, size] : idle_by_stream(to)) idle[stream][1] = size;
  std::vector<std::string> parts;
  for (const auto& [stream, sizes] : idle) {
    if (std::max(sizes[0], sizes[1]) < kLeastReported) continue;
    parts.push_back(fmt::format("{} {} → {}", stream, gib(sizes[0]), gib(sizes[1])));
  }
  return parts.empty() ? ""
                       : fmt::format("; free at the peak of live memory, by last user: {} GiB",
                                     fmt::join(parts, ", "));
}

std::string reason(const FootprintRow& from, const FootprintRow& to) {
  std::vector<std::pair<double, const Step*>> changes;
  for (const Step& step : kSteps) {
    const double change = bytes(step.size(to.figures)) - bytes(step.size(from.figures));
    if (std::abs(change) >= bytes(kLeastReported)) changes.emplace_back(change, &step);
  }
  if (changes.empty()) return "no step of the ladder changes by much.";
  std::stable_sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) {
    return std::abs(a.first) > std::abs(b.first);
  });
  std::vector<std::string> parts;
  for (const auto& [change, step] : changes) {
    parts.push_back(fmt::format("{} {} ({})", step->name, gib_change(change),
                                change < 0 ? step->less : step->more));
  }
  return fmt::format("{} GiB{}.", fmt::join(parts, ", "), idle_change(from, to));
}

/** "0.2% longer", from the medians in the table. */
std::string longer(double from, double to) {
  const double percent = std::round((to / from - 1) * 1000) / 10;
  if (percent == 0) return "as long";
  return fmt::format("{:.1f}% {}", std::abs(percent), percent > 0 ? "longer" : "shorter");
}

std::string price(const FootprintRow& from, const FootprintRow& to) {
  const FootprintFigures& a = from.figures;
  const FootprintFigures& b = to.figures;
  return fmt::format(
      "step P50 {} ms instead of {}: {}; overlap {} instead of {}; {:.0f} driver "
      "calls a step instead of {:.0f}.",
      milliseconds(b.step_p50), milliseconds(a.step_p50), longer(a.step_p50, b.step_p50),
      percent(b.hidden), percent(a.hidden), b.all_calls(), a.all_calls());
}

/** "millrace, in-place saves 7.71 GiB (22%), step +0.3%." */
std::string brief(const FootprintRow& from, const FootprintRow& to) {
  const double saved = to.saving(from).median;
  return change_line({.name = full_name(to),
                      .saved = saved,
                      .of = bytes(from.figures.reserved),
                      .amount = gib_plain(std::abs(saved)) + " GiB",
                      .cost = time_change("step", from.figures.step_p50, to.figures.step_p50)});
}

class ChangeText {
 public:
  ChangeText(const FootprintRow& from, const Painter& paint) : from_(from), paint_(paint) {}

  void change_to(const FootprintRow& to, std::string_view title) {
    const bool less = to.saving(from_).median > 0;
    text_ +=
        fmt::format("\n{} {}\n", paint_(fmt::format("{}: {}.", title, full_name(to)), Look::strong),
                    paint_(saving(from_, to), less ? Look::good : Look::bad));
    if (to.method != from_.method) line("do", fmt::format("{}.", traits_of(to.method).advice));
    if (to.allocator != from_.allocator) {
      line(to.method == from_.method ? "do" : "",
           fmt::format("give device memory from the allocator {}{}.", to.allocator,
                       to.method == from_.method ? "; the loop's code stays as it is" : ""));
    }
    line("costs", price(from_, to));
    line("why", reason(from_, to));
  }

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  void line(std::string_view label, const std::string& text) {
    constexpr std::size_t indent = 9;
    const std::string lines = wrap(text, page_width() - indent, 0);
    std::string before = pad("   " + std::string{label}, indent, Align::left);
    for (std::size_t begin = 0; begin < lines.size();) {
      const std::size_t end = std::min(lines.find('\n', begin), lines.size());
      text_ += before + lines.substr(begin, end - begin) + '\n';
      before.assign(indent, ' ');
      begin = end + 1;
    }
  }

  const FootprintRow& from_;
  const Painter& paint_;
  std::string text_;
};

std::string published(const FootprintTable& table) {
  const FootprintRow* const side = table.find("torch", CopyMethod::side_stream);
  const FootprintRow* const in_place = table.find("torch", CopyMethod::in_place);
  std::string text =
      "Published, measured on GPUs with 1 GB of input: 79.7 GB reserved with side-stream, 74.0 GB "
      "with in-place: −5.7 GB (TorchRec, pull request 3510).";
  if (side == nullptr || in_place == nullptr) return text;
  const Spread saving = in_place->saving(*side);
  const double change = -in_gb(saving.median);
  const std::string spread = side->by_seed.size() == 1
                                 ? ""
                                 : fmt::format(" ({:.1f} to {:.1f} GB less over the seeds)",
                                               in_gb(saving.least), in_gb(saving.most));
  text +=
      fmt::format(" Here torch has {}{:.1f} GB with {:.1f} GB of input{}.", change < 0 ? "−" : "+",
                  std::abs(change), in_gb(bytes(table.workload.mean_batch_bytes())), spread);
  return text;
}

}  // namespace

bool has_published_figures(const experiment::Workload& workload) {
  constexpr std::size_t bytes = std::size_t{1} << 30;  // "1 GB"
  return is_published(workload,
                      experiment::Workload::named("sparse_data_dist_base").scaled_to(bytes));
}

std::string render_advice(const FootprintTable& table, const Painter& paint) {
  std::string out;
  if (has_published_figures(table.workload)) {
    out += wrap(published(table), page_width(), 0) + "\n\n";
  }
  const FootprintRow* const from = table.usual();
  if (from == nullptr) return out;
  out += wrap(explain_usual(*from), page_width(), 0) + '\n';

  ChangeText text{*from, paint};
  for (const Change& change : all_changes(table)) text.change_to(*change.to, change.title);
  return out + text.text();
}

std::string render_first_advice(const FootprintTable& table, const Painter& paint) {
  const FootprintRow* const from = table.usual();
  if (from == nullptr) return "";
  std::string out = held(*from) + '\n';
  for (const Change& change : first_changes(table)) {
    out += advice_line(change.title, brief(*from, *change.to), change.to->saving(*from).median > 0,
                       paint);
  }
  return out;
}

}  // namespace millrace::cli
