#include "bounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "millrace/text/units.hpp"

namespace millrace::side_stream_tax {
namespace {

constexpr double kSameStep = 0.01;
constexpr double kSameHidden = 0.01;

/** The rows of one setting. */
class Setting {
 public:
  explicit Setting(std::span<const Cell> rows) : rows_(rows) {}

  [[nodiscard]] const experiment::Workload& workload() const { return rows_.front().workload; }
  [[nodiscard]] const Cell& torch(CopyMethod method) const { return row("torch", method); }
  [[nodiscard]] const Cell& millrace(CopyMethod method) const { return row("millrace", method); }

  [[nodiscard]] std::string name() const {
    return fmt::format("{:.0f} GiB of activations, compute {:g} x the copy, {} ahead, {} waits",
                       in_gib(workload().activations), workload().compute_to_copy,
                       workload().run_ahead, to_string(rows_.front().waits));
  }

 private:
  [[nodiscard]] const Cell& row(std::string_view allocator, CopyMethod method) const {
    return *std::find_if(rows_.begin(), rows_.end(), [&](const Cell& cell) {
      return cell.row.allocator == allocator && cell.row.method == method;
    });
  }

  std::span<const Cell> rows_;
};

/** A value and its limit. The bound holds while the value is at most the limit. */
struct Comparison {
  double value, limit;
};

struct Bound {
  PipelineKind shape;
  const char* text;
  const char* unit;
  Comparison (*compare)(const Setting&);
};

Comparison reserved(const Setting& setting, CopyMethod method) {
  return {setting.millrace(method).median(&Figures::reserved),
          setting.torch(CopyMethod::in_place).median(&Figures::reserved)};
}

Comparison reserved_and_batch(const Setting& setting, CopyMethod method) {
  Comparison plain = reserved(setting, method);
  plain.limit += in_gib(setting.workload().mean_batch_bytes());
  return plain;
}

Comparison exposed(const Setting& setting, CopyMethod method) {
  return {1 - setting.millrace(method).mean(&Figures::hidden),
          1 - setting.torch(CopyMethod::side_stream).mean(&Figures::hidden) + kSameHidden};
}

Comparison step(const Setting& setting, CopyMethod method) {
  return {setting.millrace(method).mean(&Figures::step),
          setting.torch(CopyMethod::side_stream).mean(&Figures::step) * (1 + kSameStep)};
}

constexpr CopyMethod kSide = CopyMethod::side_stream;
constexpr CopyMethod kPrecise = CopyMethod::precise;

constexpr std::array kBounds{
    Bound{PipelineKind::sparse_dist, "side-stream reserves at most what torch in-place does", "GiB",
          [](const Setting& s) { return reserved(s, kSide); }},
    Bound{PipelineKind::sparse_dist, "side-stream steps as fast as torch side-stream, within 1%",
          "ms", [](const Setting& s) { return step(s, kSide); }},
    Bound{PipelineKind::sparse_dist, "precise reserves at most what torch in-place does", "GiB",
          [](const Setting& s) { return reserved(s, kPrecise); }},
    Bound{PipelineKind::sparse_dist, "precise hides as much as torch side-stream, within 0.01", "",
          [](const Setting& s) { return exposed(s, kPrecise); }},
    Bound{PipelineKind::base, "side-stream reserves at most a batch more than torch in-place",
          "GiB", [](const Setting& s) { return reserved_and_batch(s, kSide); }},
    Bound{PipelineKind::base, "side-stream hides as much as torch side-stream, within 0.01", "",
          [](const Setting& s) { return exposed(s, kSide); }},
    Bound{PipelineKind::base, "precise reserves at most a batch more than torch in-place", "GiB",
          [](const Setting& s) { return reserved_and_batch(s, kPrecise); }},
    Bound{PipelineKind::base, "precise hides as much as torch side-stream, within 0.01", "",
          [](const Setting& s) { return exposed(s, kPrecise); }},
};

Verdict hold_to(const Bound& bound, const std::vector<Setting>& settings) {
  Verdict verdict;
  verdict.bound = fmt::format("{}: millrace {}", to_string(bound.shape), bound.text);
  verdict.unit = bound.unit;
  verdict.least_margin = std::numeric_limits<double>::infinity();
  for (const Setting& setting : settings) {
    if (setting.workload().shape != bound.shape) continue;
    ++verdict.settings;
    const auto [value, limit] = bound.compare(setting);
    if (limit - value < verdict.least_margin) {
      verdict.least_margin = limit - value;
      verdict.where = setting.name();
    }
    if (value > limit) {
      verdict.broken.push_back(fmt::format("{:.3f} > {:.3f} {}{}at {}", value, limit, bound.unit,
                                           *bound.unit == '\0' ? "" : " ", setting.name()));
    }
  }
  return verdict;
}

}  // namespace

std::vector<Verdict> hold_to_bounds(const std::vector<Cell>& cells) {
  std::vector<Setting> settings;
  for (std::size_t first = 0; first < cells.size(); first += kRows.size()) {
    settings.emplace_back(std::span{cells}.subspan(first, kRows.size()));
  }
  std::vector<Verdict> verdicts;
  for (const Bound& bound : kBounds) {
    Verdict verdict = hold_to(bound, settings);
    if (verdict.settings > 0) verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

}  // namespace millrace::side_stream_tax
