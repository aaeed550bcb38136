#include "millrace/observe/what_if.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "millrace/memory/out_of_memory.hpp"
#include "millrace/observe/replay.hpp"

namespace millrace {
namespace {

using trace::AllocationLog;
using trace::EventKind;
using trace::LogEvent;
using trace::LoggedOrder;
using trace::OrderKind;
using trace::StackTable;

constexpr std::size_t kMostSites = 6;  // of one stream, by bytes
constexpr std::uint64_t kMarkersOfMoves = std::uint64_t{1} << 62;

/** Allocations that are moved together. */
struct Group {
  std::uint32_t stream = 0, to = 0;
  std::optional<StackTable::Id> stack;  // nothing: all of the stream

  [[nodiscard]] bool has(const trace::LoggedBlock& block) const {
    return block.stream == stream && (!stack || block.stack == *stack);
  }
};

/** The log with a group's blocks allocated for another stream, for which their own waits. */
class MovedLog {
 public:
  MovedLog(const AllocationLog& log, const Group& group) : log_(log), group_(group) {
    auto step = log.order.begin();
    for (std::size_t i = 0; i < log_.events.size(); ++i) {
      for (; step != log.order.end() && step->before <= i; ++step) order_.push_back(*step);
      move(log_.events[i], i);
    }
    order_.insert(order_.end(), step, log.order.end());
    log_.order = std::move(order_);
  }

  [[nodiscard]] const AllocationLog& log() const noexcept { return log_; }
  [[nodiscard]] std::size_t waits() const noexcept { return waits_; }

 private:
  void move(LogEvent& event, std::size_t index) {
    if (event.kind != EventKind::allocate || !group_.has(log_.blocks[event.block])) return;
    log_.blocks[event.block].stream = group_.to;
    event.stream = group_.to;
    LoggedOrder step{.kind = OrderKind::marked,
                     .device = event.device,
                     .stream = group_.to,
                     .marker = kMarkersOfMoves + ++waits_,
                     .before = index,
                     .time_us = event.time_us};
    order_.push_back(step);
    step.kind = OrderKind::waited;
    step.other = std::exchange(step.stream, group_.stream);
    order_.push_back(step);
  }

  AllocationLog log_;
  const Group group_;
  std::vector<LoggedOrder> order_;
  std::size_t waits_ = 0;
};

class Analysis {
 public:
  Analysis(const AllocationLog& log, std::uint32_t device)
      : log_(log), device_(device), memory_(memory_of(log, device)) {}

  WhatIf run() {
    result_.reserved = reserved_by_each(log_);
    explain();
    for (const Group& group : groups()) try_move(group);
    std::ranges::stable_sort(result_.moves, {}, [](const WhatIfMove& move) {
      return move.reserved.torch.value_or(SIZE_MAX);
    });
    return std::move(result_);
  }

 private:
  static std::size_t memory_of(const AllocationLog& log, std::uint32_t device) {
    return device < log.device_memory.size() ? log.device_memory[device] : 0;
  }

  [[nodiscard]] std::optional<ReplayReport> attempt(const AllocationLog& log, const Policy& policy,
                                                    bool explains) const {
    try {
      return replay(log, device_,
                    {.policy = policy,
                     .device_bytes = memory_,
                     .start = ReplayStart::live_blocks,
                     .bounds = RequestBounds{},
                     .sites = explains,
                     .ladder = explains});
    } catch (const out_of_memory&) {
      return std::nullopt;
    }
  }

  [[nodiscard]] std::optional<std::size_t> peak(const AllocationLog& log,
                                                const Policy& policy) const {
    const auto report = attempt(log, policy, false);
    if (!report) return std::nullopt;
    return report->statistics.bytes.reserved.peak;
  }

  [[nodiscard]] WhatIfReserved reserved_by_each(const AllocationLog& log) const {
    WhatIfReserved reserved;
    try {
      reserved.driver = model_driver(log, device_, memory_);
    } catch (const DeviceError&) {
    }
    reserved.torch = peak(log, Policy::torch());
    reserved.millrace = peak(log, Policy::millrace());
    return reserved;
  }

  [[nodiscard]] std::string name(std::uint32_t stream) const {
    const std::string& name = log_.streams[stream].name;
    return name.empty() ? "stream " + std::to_string(stream) : name;
  }

  void explain() {
    const auto report = attempt(log_, Policy::torch(), true);
    if (!report) return;
    result_.recorded = report->recorded_peak;
    result_.load = max_load(trace::lifetimes(log_, device_));
    std::map<StreamId, std::string> names;
    for (const ShareStatistics& share : report->statistics.streams)
      names[share.stream] = share.name;
    const auto add = [&](const LadderShare& share, const std::string& waits_for) {
      result_.stranded.push_back({names[share.stream], share.tag, waits_for, share.bytes});
    };
    for (const LadderShare& share : report->ladder.heaviest) {
      if (share.waits_for.valid()) add(share, names[share.waits_for]);
    }
    for (const LadderShare& share : report->ladder.idle) add(share, "");
    std::ranges::stable_sort(result_.stranded, std::greater{}, &WhatIfStranded::bytes);
  }

  /** The stream whose blocks hold most at once. */
  [[nodiscard]] std::optional<std::uint32_t> main_stream() const {
    std::map<std::uint32_t, std::pair<std::uint64_t, std::uint64_t>> held;  // now, and most
    for (const LogEvent& event : log_.events) {
      if (event.device != device_ || event.block == LogEvent::kNoBlock) continue;
      const trace::LoggedBlock& block = log_.blocks[event.block];
      if (log_.streams[block.stream].for_all) continue;
      auto& [now, most] = held[block.stream];
      if (event.kind == EventKind::allocate) most = std::max(most, now += block.bytes);
      if (event.kind == EventKind::free_requested) now -= block.bytes;
    }
    const auto most =
        std::ranges::max_element(held, {}, [](const auto& each) { return each.second.second; });
    return most == held.end() ? std::nullopt : std::optional{most->first};
  }

  [[nodiscard]] std::vector<Group> groups() const {
    const auto main = main_stream();
    if (!main) return {};
    std::map<std::uint32_t, std::map<StackTable::Id, std::uint64_t>> bytes;
    for (const trace::LoggedBlock& block : log_.blocks) {
      const bool may_move =
          block.device == device_ && block.stream != *main && !log_.streams[block.stream].for_all;
      if (may_move) bytes[block.stream][block.stack] += block.bytes;
    }
    std::vector<Group> groups;
    for (const auto& [stream, of_sites] : bytes) {
      if (groups.size() >= kMostSites) break;  // streams that are made in a loop
      groups.push_back({stream, *main, std::nullopt});
      if (of_sites.size() < 2) continue;
      std::vector<std::pair<std::uint64_t, StackTable::Id>> largest;
      for (const auto& [stack, sum] : of_sites) largest.emplace_back(sum, stack);
      std::ranges::sort(largest, std::greater{});
      largest.resize(std::min(largest.size(), kMostSites));
      for (const auto& [sum, stack] : largest) groups.push_back({stream, *main, stack});
    }
    return groups;
  }

  void try_move(const Group& group) {
    const MovedLog moved{log_, group};
    WhatIfMove move{.stream = name(group.stream), .to = name(group.to)};
    if (group.stack) move.site = trace::site_name(log_.stacks, *group.stack);
    std::set<std::uint64_t, std::greater<>> sizes;
    for (const trace::LoggedBlock& block : log_.blocks) {
      if (block.device != device_ || !group.has(block)) continue;
      sizes.insert(block.bytes);
      ++move.blocks;
    }
    move.sizes.assign(sizes.begin(), sizes.end());
    move.reserved = reserved_by_each(moved.log());
    move.waits = moved.waits();
    if (saves(move.reserved)) result_.moves.push_back(std::move(move));
  }

  [[nodiscard]] bool saves(const WhatIfReserved& with) const {
    const WhatIfReserved& now = result_.reserved;
    const auto less = [](const auto& a, const auto& b) { return a && b && *a < *b; };
    return less(with.torch, now.torch) || less(with.millrace, now.millrace) ||
           (with.driver && now.driver &&
            (with.driver->most < now.driver->most || with.driver->least < now.driver->least));
  }

  const AllocationLog& log_;
  const std::uint32_t device_;
  const std::size_t memory_;
  WhatIf result_;
};

}  // namespace

WhatIf what_if(const trace::AllocationLog& log, std::uint32_t device) {
  return Analysis{log, device}.run();
}

}  // namespace millrace
