#include "explain/advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "explain/explained.hpp"
#include "explain/words.hpp"

namespace millrace::cli {
namespace {

constexpr std::uint64_t kLeastBytes = std::uint64_t{2} << 20;  // minimum saving, or 1% if more

/** The advice for a change of the program. */
struct ProgramAdvice {
  const char* change = "";
  const char* cost = "";
  MemoryPart saved = MemoryPart::stream;  ///< upper bound of the saving if no replay exists
};

constexpr const char* kExpandable = "torch-expandable";
constexpr const char* kSetExpandable = "set PYTORCH_ALLOC_CONF=expandable_segments:True";
constexpr const char* kCostOfExpandable =
    "free memory still serves only its own stream, and memory that processes share needs a version "
    "of PyTorch that can share it";

ProgramAdvice program_advice(ProgramChange change) {
  switch (change) {
    case ProgramChange::none:
      break;
    case ProgramChange::one_stream:
      return {
          "allocate on the main stream what side streams write, too (copy strategy in-place)",
          "a side stream waits for the main stream before it writes, so less of its work overlaps",
          MemoryPart::stream};
    case ProgramChange::ring:
      return {"give each side stream fixed buffers that it uses in turn (copy strategy ring)",
              "the buffers are never free for other streams, and sizes that grow need headroom",
              MemoryPart::stream};
    case ProgramChange::handed_over:
      return {"hand blocks of side streams to the main stream where it waits for them (transfer)",
              "the allocator needs a call for it, as Millrace's has", MemoryPart::stream};
    case ProgramChange::no_recorded_uses:
      return {
          "hold blocks until the other stream is done with them, instead of recording its uses "
          "(record_stream)",
          "the program has to keep the references and wait for an event", MemoryPart::waiting};
  }
  return {};
}

/** Finds the advice for one device. */
class Adviser {
 public:
  Adviser(const ExplainedFile& file, const ExplainedDevice& device)
      : log_(file.log),
        device_(device),
        peak_(device.memory.peak),
        of_torch_(is_of_torch(file, device)),
        is_own_run_(is_own_run(file.log)),
        baseline_(baseline(file, device)),
        least_(std::max(kLeastBytes, peak_.reserved.value_or(device.memory.most_live) / 100)) {}

  std::vector<Advice> run() {
    for (const WhatIfRow& row : device_.rows) add(row);
    std::vector<Advice> all = sorted(std::move(singles_));
    const std::vector<Advice> pairs = sorted(std::move(pairs_));
    if (!pairs.empty() && (all.empty() || is_better(pairs.front(), all.front())))
      all.insert(all.begin(), pairs.front());
    add_bounds();
    for (Advice& bound : sorted(std::move(bounds_))) all.push_back(std::move(bound));
    return all;
  }

 private:
  [[nodiscard]] std::vector<Advice> sorted(std::vector<Advice> found) const {
    std::erase_if(found,
                  [&](const Advice& advice) { return advice.saves < least_ && !advice.serves; });
    std::ranges::stable_sort(found, std::greater{}, [](const Advice& advice) {
      return std::pair{advice.serves, advice.saves};
    });
    return found;
  }

  /** Whether two changes together are worth more than one change. */
  [[nodiscard]] bool is_better(const Advice& two, const Advice& one) const {
    if (two.serves != one.serves) return two.serves;
    return !one.serves && two.saves >= one.saves + least_;
  }

  void add(const WhatIfRow& row) {
    if (!row.reserved || !baseline_) return;
    // If an empty start with the same decisions serves the request, memory from before the log made
    // it fail. Then no change gets the credit.
    const WhatIfRow* const as_is = device_.find("torch", ProgramChange::none);
    const bool served_as_is = of_torch_ && as_is != nullptr && as_is->serves_failed.value_or(false);
    const bool serves = row.serves_failed.value_or(false) && !served_as_is;
    if (*row.reserved >= *baseline_ && !serves) return;
    if (row.allocator == kDriverLeast) return;  // a lower bound shows no saving
    const std::string allocator = allocator_advice(row.allocator);
    const ProgramAdvice program = program_advice(row.change);
    const bool changes_program = row.change != ProgramChange::none;
    if (allocator.empty() && !changes_program) return;
    Advice advice{.change = allocator,
                  .cost = {},
                  .row = row.name(),
                  .saves = *baseline_ - std::min(*baseline_, *row.reserved),
                  .serves = serves};
    if (!allocator.empty() && row.waits != 0) {
      advice.cost = "it makes a stream wait for another " + how_often(row.waits);
    } else if (row.allocator == kExpandable) {
      advice.cost = kCostOfExpandable;
    } else if (!changes_program) {
      advice.cost = "no stream waits for another because of it";
    }
    if (changes_program) {
      advice.change += (allocator.empty() ? "" : ", and ") + std::string{program.change};
      advice.cost += (advice.cost.empty() ? "" : "; ") + std::string{program.cost};
    }
    (changes_program && !allocator.empty() ? pairs_ : singles_).push_back(std::move(advice));
  }

  /** "" if the recorded program has this allocator, or one that reserved about as many bytes. */
  [[nodiscard]] std::string allocator_advice(std::string_view allocator) const {
    const bool millrace = allocator == "millrace";
    if (allocator == kExpandable) return of_torch_ ? kSetExpandable : "";
    if (allocator == kDriverMost)
      return peak_.unplaced != 0 ? "" : "use the driver's pool (cudaMallocAsync)";
    if (of_torch_)
      return millrace ? "run it on Millrace's allocator (python -m millrace.torch)" : "";
    // Of Millrace's own runs and of snapshots, only those with the policy millrace share memory.
    if (millrace && device_.memory.shares_streams && (log_.snapshot || is_own_run_)) return "";
    const WhatIfRow* const plain = device_.find(allocator, ProgramChange::none);
    if (plain != nullptr && peak_.reserved) {
      const std::uint64_t more = std::max(*plain->reserved, *peak_.reserved);
      const std::uint64_t less = std::min(*plain->reserved, *peak_.reserved);
      if (more - less < least_) return "";
    }
    if (!millrace) return "run it on an allocator that decides as PyTorch's does";
    return is_own_run_ ? "choose the policy millrace (--allocator millrace)"
                       : "run it on Millrace's allocator (millrace run)";
  }

  void add_bound(std::string change, std::string cost, MemoryPart part) {
    bounds_.push_back({.change = std::move(change),
                       .cost = std::move(cost),
                       .row = {},
                       .saves = peak_.bytes(part),
                       .at_most = true});
  }

  // Adds upper bounds for changes without a replay. Without any replays, also for changes of the
  // program.
  void add_bounds() {
    add_bound("let CUDA graphs and MemPools share one pool, captured on one stream",
              "graphs of one pool may not run at the same time", MemoryPart::pool);
    if (!of_torch_) return;
    if (device_.rows.empty()) {
      for (const ProgramChange change :
           {ProgramChange::one_stream, ProgramChange::no_recorded_uses}) {
        const ProgramAdvice advice = program_advice(change);
        add_bound(advice.change, advice.cost, advice.saved);
      }
    }
    const bool is_replayed = device_.find(kExpandable, ProgramChange::none) != nullptr;
    if (!is_replayed && !uses_expandable_segments(log_)) {
      add_bound(kSetExpandable, kCostOfExpandable, MemoryPart::hard);
    }
    const auto& divisions = log_.snapshot->settings.roundup_power2_divisions;
    if (std::ranges::any_of(divisions, [](std::uint64_t steps) { return steps > 1; })) {
      add_bound("set roundup_power2_divisions to more steps, or leave it out",
                "sizes that vary find a free block less often", MemoryPart::rounding);
    }
  }

  const trace::AllocationLog& log_;
  const ExplainedDevice& device_;
  const MemoryMoment& peak_;
  const bool of_torch_, is_own_run_;
  const std::optional<std::uint64_t> baseline_;
  const std::uint64_t least_;
  std::vector<Advice> singles_, pairs_, bounds_;
};

}  // namespace

bool uses_expandable_segments(const trace::AllocationLog& log) {
  return log.snapshot && (log.snapshot->settings.expandable_segments ||
                          std::ranges::any_of(log.blocks, &trace::LoggedBlock::expandable) ||
                          std::ranges::any_of(log.events, [](const trace::LogEvent& event) {
                            return event.kind == trace::EventKind::segment_map;
                          }));
}

std::vector<Advice> advise(const ExplainedFile& file, const ExplainedDevice& device) {
  return Adviser{file, device}.run();
}

bool is_of_torch(const ExplainedFile& file, const ExplainedDevice& device) {
  return file.log.snapshot.has_value() && !is_own_run(file.log) && !device.memory.shares_streams;
}

bool is_own_run(const trace::AllocationLog& log) {
  if (log.snapshot) return log.snapshot->of_millrace;
  return log.format == trace::TraceFormat::millrace && log.program.empty();
}

std::optional<std::uint64_t> baseline(const ExplainedFile& file, const ExplainedDevice& device) {
  const auto recorded = device.memory.peak.reserved;
  const bool has_policy = is_of_torch(file, device) || is_own_run(file.log);
  const WhatIfRow* const same =
      device.find(device.memory.shares_streams ? "millrace" : "torch", ProgramChange::none);
  if (!recorded || same == nullptr || !has_policy) return recorded;
  return std::min(*recorded, *same->reserved);
}

}  // namespace millrace::cli
