#include "pipelines/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "cli/svg.hpp"
#include "millrace/pipeline/schedule/run_memory.hpp"
#include "millrace/text/units.hpp"

namespace millrace::cli {
namespace {

constexpr double kWidth = 900, kHeight = 480;
constexpr double kLeft = 64, kRight = 250, kTop = 44, kBottom = 48;
constexpr double kMark = 7;  // half the width of a mark

// Okabe and Ito's colors, which people with color blindness can distinguish.
constexpr std::array<std::string_view, 8> kColors{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                  "#e69f00", "#56b4e9", "#7a6a00", "#444444"};

/** One axis. It maps values to coordinates, and has marks at round numbers. */
class Axis {
 public:
  Axis(double least, double most, double from, double to) : from_(from), to_(to) {
    const double span = std::max(most - least, 0.05 * most);
    step_ = round_step(span / 5);
    least_ = std::floor((least - 0.05 * span) / step_) * step_;
    most_ = std::ceil((most + 0.05 * span) / step_) * step_;
  }

  [[nodiscard]] double place(double value) const {
    return from_ + (value - least_) / (most_ - least_) * (to_ - from_);
  }
  template <typename Draw>
  void each(Draw draw) const {
    const auto count = static_cast<int>(std::lround((most_ - least_) / step_));
    for (int i = 0; i <= count; ++i) draw(least_ + i * step_);
  }

 private:
  double from_, to_, step_ = 1, least_ = 0, most_ = 1;
};

std::string_view color_of(PipelineKind kind) {
  const auto at = std::ranges::find(kPipelineKinds, kind) - kPipelineKinds.begin();
  return kColors[static_cast<std::size_t>(at) % kColors.size()];
}

/** The mark of an allocator: torch is a circle, millrace a square, driver a diamond. */
std::string mark(double x, double y, std::string_view allocator, std::string_view color) {
  if (allocator == "torch") {
    return fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="{}" fill="{}"/>)", x, y, kMark, color);
  }
  const std::string turn =
      allocator == "driver" ? fmt::format(R"~( transform="rotate(45 {:.1f} {:.1f})")~", x, y) : "";
  return fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{}" height="{}" fill="{}"{}/>)",
                     x - kMark, y - kMark, 2 * kMark, 2 * kMark, color, turn);
}

/** The letter inside a mark. */
std::string_view letter_of(CopyMethod method) { return {&traits_of(method).letter, 1}; }

double runtime_ms(const PipelineRow& row) { return in_milliseconds(row.runtime_p50); }
double reserved_gib(const PipelineRow& row) { return in_gib(row.example.memory.reserved.peak); }

class Picture {
 public:
  Picture(const std::vector<const PipelineRow*>& rows, const PipelinesOptions& options)
      : rows_(rows),
        options_(options),
        x_(least(runtime_ms), most(runtime_ms), kLeft, kWidth - kRight),
        y_(least(reserved_gib), most(reserved_gib), kHeight - kBottom, kTop) {}

  std::string draw() {
    out_ = svg_head(kWidth, kHeight);
    const experiment::Workload& workload = options_.workload;
    out_ += svg_text(kLeft, 22,
                     fmt::format("{} on {} x {}: {} batches of {} examples a rank", workload.name,
                                 workload.world_size, options_.device.title, workload.num_batches,
                                 workload.batch_size),
                     " class=\"t\"");
    draw_axes();
    for (const PipelineRow* const row : rows_) draw_mark(*row);
    draw_legend();
    return out_ + "</svg>\n";
  }

 private:
  template <typename Value>
  double least(Value value) const {
    return value(
        **std::ranges::min_element(rows_, {}, [&](const PipelineRow* row) { return value(*row); }));
  }
  template <typename Value>
  double most(Value value) const {
    return value(
        **std::ranges::max_element(rows_, {}, [&](const PipelineRow* row) { return value(*row); }));
  }

  void draw_axes() {
    x_.each([&](double value) {
      const double x = x_.place(value);
      out_ +=
          fmt::format("<path class=\"g\" d=\"M{0:.1f} {1}V{2}\"/>\n", x, kTop, kHeight - kBottom);
      out_ += svg_text(x, kHeight - kBottom + 16, fmt::format("{:g}", value),
                       " text-anchor=\"middle\"");
    });
    y_.each([&](double value) {
      const double y = y_.place(value);
      out_ +=
          fmt::format("<path class=\"g\" d=\"M{0} {1:.1f}H{2}\"/>\n", kLeft, y, kWidth - kRight);
      out_ += svg_text(kLeft - 8, y + 4, fmt::format("{:g}", value), " text-anchor=\"end\"");
    });
    out_ += svg_text((kLeft + kWidth - kRight) / 2, kHeight - 12,
                     "runtime of the loop, ms (modeled)", " class=\"s\" text-anchor=\"middle\"");
    out_ += svg_text(kLeft - 48, kTop - 10, "peak reserved, GiB", " class=\"s\"");
  }

  void draw_mark(const PipelineRow& row) {
    const double x = x_.place(runtime_ms(row)), y = y_.place(reserved_gib(row));
    out_ += fmt::format(
        "<g><title>{} {} {} {}: {:.1f} ms, {:.2f} GiB</title>{}{}</g>\n", title_of(row.cell),
        row.cell.allocator, millrace::to_string(row.cell.options.copy),
        millrace::to_string(row.cell.options.waits), runtime_ms(row), reserved_gib(row),
        mark(x, y, row.cell.allocator, color_of(row.cell.pipeline)),
        svg_text(x, y + 3, letter_of(row.cell.options.copy), " class=\"m\""));
  }

  void draw_legend() {
    const double x = kWidth - kRight + 24;
    double y = kTop + 6;
    const auto line = [&](const std::string& drawn, std::string_view text) {
      out_ += drawn + svg_text(x + 16, y + 4, text);
      y += 20;
    };
    for (const PipelineKind kind : kPipelineKinds) {
      if (has([&](const PipelineRow& row) { return row.cell.pipeline == kind; })) {
        line(fmt::format(R"(<path d="M{0:.1f} {1:.1f}h12" stroke="{2}" stroke-width="6"/>)", x - 6,
                         y, color_of(kind)),
             millrace::to_string(kind));
      }
    }
    y += 8;
    for (const std::string_view allocator : kAllocatorNames) {
      if (has([&](const PipelineRow& row) { return row.cell.allocator == allocator; })) {
        line(mark(x, y, allocator, "#888"), allocator);
      }
    }
    y += 8;
    for (const CopyMethod method : kCopyMethods) {
      if (has([&](const PipelineRow& row) { return row.cell.options.copy == method; })) {
        line(svg_text(x - 3, y + 4, letter_of(method), " font-weight=\"600\""),
             millrace::to_string(method));
      }
    }
  }

  template <typename Is>
  [[nodiscard]] bool has(Is is) const {
    return std::ranges::any_of(rows_, [&](const PipelineRow* row) { return is(*row); });
  }

  const std::vector<const PipelineRow*>& rows_;
  const PipelinesOptions& options_;
  const Axis x_, y_;
  std::string out_;
};

}  // namespace

std::string draw_picture(const std::vector<PipelineRow>& rows, const PipelinesOptions& options) {
  std::vector<const PipelineRow*> shown;
  for (const PipelineRow& row : rows) {
    if (row.ok()) shown.push_back(&row);
  }
  if (shown.empty()) {
    return svg_head(kWidth, kHeight) + svg_text(kLeft, kTop, "no row has figures: see the table") +
           "</svg>\n";
  }
  return Picture{shown, options}.draw();
}

}  // namespace millrace::cli
