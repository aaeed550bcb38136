#include "explain/advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "explain/explained.hpp"

namespace millrace::cli {
namespace {

constexpr std::uint64_t kLeastBytes = std::uint64_t{2} << 20;  // worth telling, and 1%

bool uses_expandable_segments(const trace::AllocationLog& log) {
  return log.snapshot && (log.snapshot->settings.expandable_segments ||
                          std::ranges::any_of(log.blocks, &trace::LoggedBlock::expandable) ||
                          std::ranges::any_of(log.events, [](const trace::LogEvent& event) {
                            return event.kind == trace::EventKind::segment_map;
                          }));
}

/** Finds changes for one device. */
class Adviser {
 public:
  Adviser(const ExplainedFile& file, const ExplainedDevice& device)
      : log_(file.log),
        device_(device),
        peak_(device.memory.peak),
        expandable_(uses_expandable_segments(log_)) {}

  std::vector<Advice> run() {
    use_millrace();
    if (is_torch()) {
      use_one_stream();
      use_fixed_buffers();
      hold_references();
    }
    use_expandable_segments();
    share_pools();
    round_less();
    const std::uint64_t all = peak_.reserved.value_or(device_.memory.most_live);
    const std::uint64_t least = std::max(kLeastBytes, all / 100);
    std::erase_if(found_, [&](const Advice& advice) { return advice.saves < least; });
    // What a replay shows comes before what may be.
    std::ranges::stable_sort(found_, [](const Advice& a, const Advice& b) {
      return std::pair{!a.at_most, a.saves} > std::pair{!b.at_most, b.saves};
    });
    return std::move(found_);
  }

 private:
  /** What the recorded program reserves, as the replays are compared with it. */
  [[nodiscard]] std::optional<std::uint64_t> now() const {
    if (!is_torch()) return std::nullopt;    // the allocator that wrote the log is not known
    if (expandable_) return peak_.reserved;  // no replay has expandable segments
    const WhatIfRow* const row = device_.find("torch", ProgramChange::none);
    return row == nullptr ? std::nullopt : row->reserved;
  }

  [[nodiscard]] std::uint64_t saved_by(const WhatIfRow* row) const {
    const auto reserved = now();
    return row == nullptr || !reserved || *row->reserved >= *reserved ? 0
                                                                      : *reserved - *row->reserved;
  }

  [[nodiscard]] bool is_torch() const { return log_.snapshot.has_value(); }

  void add(std::string change, std::string cost, std::uint64_t saves, bool at_most = false) {
    found_.push_back({std::move(change), std::move(cost), saves, at_most});
  }

  void use_millrace() {
    const WhatIfRow* const row = device_.find("millrace", ProgramChange::none);
    if (row == nullptr) return;
    const std::string cost =
        row->waits == 0 ? "no stream waits for another because of it"
                        : fmt::format("it makes a stream wait for another {} times", row->waits);
    add("run it on Millrace's allocator (python -m millrace.torch)", cost, saved_by(row));
  }

  // PyTorch's own decisions with another program. Without a replay of them, what is there to save.
  void add_program_change(std::string change, std::string cost, ProgramChange which,
                          MemoryPart part) {
    const WhatIfRow* const row = device_.find("torch", which);
    const bool replayed = row != nullptr && !expandable_;
    add(std::move(change), std::move(cost), replayed ? saved_by(row) : peak_.bytes(part),
        !replayed);
  }

  void use_one_stream() {
    add_program_change(
        "allocate on the main stream what side streams write, too (copy strategy in-place)",
        "a side stream waits for the main stream before it writes, so less of its work overlaps",
        ProgramChange::one_stream, MemoryPart::stream);
  }

  void use_fixed_buffers() {
    if (device_.find("torch", ProgramChange::ring) == nullptr) return;
    add_program_change(
        "give each side stream fixed buffers that it uses in turn (copy strategy ring)",
        "the buffers are never free for other streams, and sizes that grow need headroom",
        ProgramChange::ring, MemoryPart::stream);
  }

  void hold_references() {
    add_program_change(
        "hold tensors until the other stream is done with them, instead of record_stream",
        "the program has to keep the references and wait for an event",
        ProgramChange::no_recorded_uses, MemoryPart::waiting);
  }

  void use_expandable_segments() {
    if (!is_torch()) return;
    if (expandable_) return;
    add("set PYTORCH_ALLOC_CONF=expandable_segments:True",
        "not with memory that is shared between processes, and it does not help between streams",
        peak_.bytes(MemoryPart::hard), true);
  }

  void share_pools() {
    add("let CUDA graphs and MemPools share one pool, captured on one stream",
        "graphs of one pool may not run at the same time", peak_.bytes(MemoryPart::pool), true);
  }

  void round_less() {
    if (!is_torch()) return;
    const auto& divisions = log_.snapshot->settings.roundup_power2_divisions;
    const bool rounds =
        std::ranges::any_of(divisions, [](std::uint64_t steps) { return steps > 1; });
    if (!rounds) return;
    add("set roundup_power2_divisions to more steps, or leave it out",
        "sizes that vary find a free block less often", peak_.bytes(MemoryPart::rounding), true);
  }

  const trace::AllocationLog& log_;
  const ExplainedDevice& device_;
  const MemoryMoment& peak_;
  const bool expandable_;
  std::vector<Advice> found_;
};

}  // namespace

std::vector<Advice> advise(const ExplainedFile& file, const ExplainedDevice& device) {
  return Adviser{file, device}.run();
}

}  // namespace millrace::cli
