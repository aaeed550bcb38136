#include "pipelines/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "cli/svg.hpp"
#include "millrace/experiment/exposure.hpp"
#include "millrace/text/units.hpp"

namespace millrace::cli {
namespace {

constexpr double kLanesWidth = 900, kLane = 26, kBox = 18;
constexpr double kLanesLeft = 92, kLanesRight = 12, kLanesTop = 34, kAxis = 22, kLegendLine = 18;
constexpr double kLeastWidth = 0.8;  // of a box, so that it stays visible

constexpr std::size_t kLegendColumns = 3;

enum class Part {
  copy,
  features,
  prefetch,
  rows,
  gradients,
  lookup,
  forward,
  backward,
  update,
  optimizer
};

struct Kind {
  Part part;
  std::string_view color, name;
};
// Okabe and Ito's colors, which people with color blindness can distinguish.
constexpr std::array kKinds{
    Kind{Part::copy, "#e69f00", "batch, host to device"},
    Kind{Part::features, "#7a6a00", "features: exchanged and put in order"},
    Kind{Part::prefetch, "#8c564b", "rows fetched into the cache"},
    Kind{Part::lookup, "#0072b2", "lookup"},
    Kind{Part::rows, "#cc79a7", "rows and gradients between ranks"},
    Kind{Part::forward, "#009e73", "forward"},
    Kind{Part::backward, "#56b4e9", "backward"},
    Kind{Part::update, "#d55e00", "update of the tables"},
    Kind{Part::gradients, "#f0a0c8", "sum of dense gradients"},
    Kind{Part::optimizer, "#444444", "dense optimizer"},
};

constexpr double kLegendLines = (kKinds.size() + kLegendColumns - 1) / kLegendColumns;

constexpr std::array kUpdates{"linearize", "sort", "find runs", "update tables", "part columns"};
constexpr std::array kBackwards{"linear backward", "concatenate backward", "interact backward",
                                "mean over ranks"};
constexpr std::array kOptimizers{"step", "longer optimizer"};

Part part_of(const experiment::LoopOperation& operation) {
  const auto is_one_of = [&](const auto& names) {
    return std::ranges::find(names, std::string_view{operation.name}) != names.end();
  };
  if (operation.engine == Engine::host_to_device) return Part::copy;
  if (operation.name == "all-reduce") return Part::gradients;
  if (operation.stream == "pooled-rows") return Part::rows;
  if (operation.stream == "prefetch") return Part::prefetch;
  if (operation.name == "look up") return Part::lookup;
  if (is_one_of(kUpdates)) return Part::update;
  if (is_one_of(kOptimizers)) return Part::optimizer;
  if (is_one_of(kBackwards)) return Part::backward;
  if (operation.stream == "data-dist") return Part::features;
  return Part::forward;
}

const Kind& kind_of(Part part) { return *std::ranges::find(kKinds, part, &Kind::part); }

/** Two steps in the middle of the loop. They begin and end with the last operation of a step. */
experiment::TimeSpan window_of(const std::vector<experiment::LoopOperation>& operations,
                               std::string_view last_of_step) {
  std::vector<Nanoseconds> ends;
  Nanoseconds last{0};
  for (const experiment::LoopOperation& operation : operations) {
    if (operation.rank != 0) continue;
    last = std::max(last, operation.end);
    if (operation.name == last_of_step) ends.push_back(operation.end);
  }
  if (ends.size() < 4) return {Nanoseconds{0}, last};
  const std::size_t middle = ends.size() / 2;
  return {ends[middle - 1], ends[middle + 1]};
}

/** Streams from top to bottom: copies to the device, exchange between ranks, compute. */
std::vector<std::string> lanes_of(const std::vector<experiment::LoopOperation>& operations,
                                  experiment::TimeSpan window) {
  std::vector<std::string> lanes{"copy", "data-dist",   "prefetch", "lookup",
                                 "main", "pooled-rows", "gradients"};
  std::erase_if(lanes, [&](const std::string& lane) {
    return std::ranges::none_of(operations, [&](const experiment::LoopOperation& operation) {
      return operation.rank == 0 && operation.stream == lane && operation.end > window.begin &&
             operation.begin < window.end;
    });
  });
  return lanes;
}

class Steps {
 public:
  Steps(const PipelineRow& row, const PipelinesOptions& options)
      : operations_(row.example.operations),
        window_(window_of(operations_, row.cell.forward_only ? "loss" : "step")),
        lanes_(lanes_of(operations_, window_)) {
    const double height = legend_top() + kLegendLines * kLegendLine + 6;
    out_ = svg_head(kLanesWidth, height);
    out_ += svg_text(kLanesLeft, 20,
                     fmt::format("{}, {} copies: two steps of {} on {}", title_of(row.cell),
                                 millrace::to_string(row.cell.options.copy), options.workload.name,
                                 options.device.title),
                     " class=\"t\"");
  }

  std::string draw() {
    draw_axis();
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      out_ += svg_text(kLanesLeft - 8, top_of(lane) + 13, lanes_[lane], " text-anchor=\"end\"");
      for (const experiment::LoopOperation& operation : operations_) draw_box(operation, lane);
    }
    draw_legend();
    return out_ + "</svg>\n";
  }

 private:
  [[nodiscard]] static double top_of(std::size_t lane) {
    return kLanesTop + static_cast<double>(lane) * kLane;
  }
  [[nodiscard]] double legend_top() const { return top_of(lanes_.size()) + kAxis + 14; }
  [[nodiscard]] double place(Nanoseconds time) const {
    const double whole = static_cast<double>((window_.end - window_.begin).count());
    return kLanesLeft + static_cast<double>((time - window_.begin).count()) / whole *
                            (kLanesWidth - kLanesLeft - kLanesRight);
  }

  void draw_axis() {
    const double bottom = top_of(lanes_.size());
    const double whole = in_milliseconds(window_.end - window_.begin);
    const double step = round_step(whole / 8);
    for (double at = 0; at <= whole; at += step) {
      const double x = place(window_.begin + Nanoseconds{static_cast<Nanoseconds::rep>(at * 1e6)});
      out_ += fmt::format("<path class=\"g\" d=\"M{0:.1f} {1}V{2}\"/>\n", x, kLanesTop, bottom);
      out_ +=
          svg_text(x, bottom + 14, fmt::format("{:g}", at), " class=\"s\" text-anchor=\"middle\"");
    }
    out_ += svg_text(kLanesLeft - 8, bottom + 14, "ms", " class=\"s\" text-anchor=\"end\"");
  }

  void draw_box(const experiment::LoopOperation& operation, std::size_t lane) {
    const bool shown = operation.rank == 0 && operation.stream == lanes_[lane] &&
                       operation.end > window_.begin && operation.begin < window_.end;
    if (!shown) return;
    const double from = place(std::max(operation.begin, window_.begin));
    const double to = place(std::min(operation.end, window_.end));
    out_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\">"
        "<title>{}: {:.2f} ms</title></rect>\n",
        from, top_of(lane) + 2, std::max(kLeastWidth, to - from), kBox,
        kind_of(part_of(operation)).color, svg_escaped(operation.name),
        in_milliseconds(operation.end - operation.begin));
  }

  void draw_legend() {
    constexpr double kColumn = (kLanesWidth - kLanesLeft - kLanesRight) / kLegendColumns;
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      const double x = kLanesLeft + static_cast<double>(i % kLegendColumns) * kColumn;
      const double y = legend_top() + static_cast<double>(i / kLegendColumns) * kLegendLine;
      out_ +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>", x,
                      y, kKinds[i].color);
      out_ += svg_text(x + 18, y + 10, kKinds[i].name);
    }
  }

  const std::vector<experiment::LoopOperation>& operations_;
  const experiment::TimeSpan window_;
  const std::vector<std::string> lanes_;
  std::string out_;
};

}  // namespace

std::string draw_steps(const PipelineRow& row, const PipelinesOptions& options) {
  return Steps{row, options}.draw();
}

}  // namespace millrace::cli
