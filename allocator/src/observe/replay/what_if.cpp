#include "millrace/observe/what_if.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "millrace/memory/out_of_memory.hpp"
#include "millrace/observe/replay.hpp"
#include "observe/replay/known_completions.hpp"
#include "observe/replay/strategy_log.hpp"

namespace millrace {
namespace {

using trace::AllocationLog;
using trace::EventKind;
using trace::LogEvent;
using trace::StackTable;

constexpr std::size_t kMostSites = 6;  // of one stream, by bytes

constexpr std::array kStrategies{WhatIfStrategy::in_place, WhatIfStrategy::precise,
                                 WhatIfStrategy::transfer, WhatIfStrategy::ring,
                                 WhatIfStrategy::free_list};

ReplayOptions options_of(const AllocationLog& log, std::uint32_t device, const Policy& policy,
                         bool explains) {
  return {.policy = policy,
          .device_bytes = device < log.device_memory.size() ? log.device_memory[device] : 0,
          .start = ReplayStart::live_blocks,
          .bounds = RequestBounds{},
          .sites = explains,
          .ladder = explains};
}

/** Of a replay with sites and a ladder; by bytes. */
std::vector<WhatIfStranded> stranded_in(const ReplayReport& report, const Policy& policy) {
  std::map<StreamId, std::string> names;
  for (const ShareStatistics& share : report.statistics.streams) names[share.stream] = share.name;
  std::vector<WhatIfStranded> stranded;
  const auto add = [&](const LadderShare& share, const std::string& waits_for) {
    stranded.push_back({names[share.stream], share.tag, waits_for, share.bytes});
  };
  for (const LadderShare& share : report.ladder.heaviest) {
    if (share.waits_for.valid()) add(share, names[share.waits_for]);
  }
  if (policy.sharing == Sharing::own_stream) {  // what is free is free for its stream only
    for (const LadderShare& share : report.ladder.idle) add(share, "");
  }
  std::ranges::stable_sort(stranded, std::greater{}, &WhatIfStranded::bytes);
  return stranded;
}

class Analysis {
 public:
  Analysis(const AllocationLog& log, std::uint32_t device, const WhatIfOptions& options)
      : log_(log),
        device_(device),
        memory_(device < log.device_memory.size() ? log.device_memory[device] : 0),
        most_events_of_sites_(options.most_events_of_sites),
        profile_(DeviceProfile::named(options.profile)),
        known_(log, device) {}

  WhatIf run() {
    result_.reserved = reserved_by_each(log_);
    explain();
    for (const WhatIfGroup& group : groups()) {
      const bool all = !group.stack || log_.events.size() <= most_events_of_sites_;
      for (const WhatIfStrategy strategy : kStrategies) {
        if (all || strategy == WhatIfStrategy::in_place) attempt_move(group, strategy);
      }
    }
    std::ranges::stable_sort(result_.moves, {}, [](const WhatIfMove& move) {
      return move.reserved.torch.value_or(SIZE_MAX);
    });
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::optional<ReplayReport> attempt(const AllocationLog& log, const Policy& policy,
                                                    bool explains) const {
    try {
      return replay(log, device_, options_of(log, device_, policy, explains));
    } catch (const out_of_memory&) {
      return std::nullopt;
    }
  }

  /** @param waits  how often the allocator made a stream wait */
  [[nodiscard]] std::optional<std::size_t> peak(const AllocationLog& log, const Policy& policy,
                                                std::size_t& waits) const {
    const auto report = attempt(log, policy, false);
    if (!report) return std::nullopt;
    waits = report->statistics.counts.waits_inserted;
    return report->statistics.bytes.reserved.peak;
  }

  [[nodiscard]] WhatIfReserved reserved_by_each(const AllocationLog& log) const {
    WhatIfReserved reserved;
    try {
      reserved.driver = model_driver(log, device_, memory_);
    } catch (const DeviceError&) {
    }
    reserved.torch = peak(log, Policy::torch(), reserved.torch_waits);
    reserved.millrace = peak(log, Policy::millrace(), reserved.millrace_waits);
    return reserved;
  }

  [[nodiscard]] std::string name(std::uint32_t stream) const {
    const std::string& name = log_.streams[stream].name;
    return name.empty() ? "stream " + std::to_string(stream) : name;
  }

  void explain() {
    result_.load = max_load(trace::lifetimes(log_, device_));
    const auto report = attempt(log_, Policy::torch(), true);
    if (!report) return;
    result_.recorded = report->recorded_peak;
    result_.stranded = stranded_in(*report, Policy::torch());
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

  [[nodiscard]] std::vector<WhatIfGroup> groups() const {
    const auto main = main_stream();
    if (!main) return {};
    std::map<std::uint32_t, std::map<StackTable::Id, std::uint64_t>> bytes;
    for (const trace::LoggedBlock& block : log_.blocks) {
      const bool may_move =
          block.device == device_ && block.stream != *main && !log_.streams[block.stream].for_all;
      if (may_move) bytes[block.stream][block.stack] += block.bytes;
    }
    std::vector<WhatIfGroup> groups;
    if (bytes.size() > 1) groups.push_back({std::nullopt, *main, std::nullopt});
    for (const auto& [stream, of_sites] : bytes) {
      if (groups.size() > kMostSites) break;  // streams that are made in a loop
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

  void attempt_move(const WhatIfGroup& group, WhatIfStrategy strategy) {
    const StrategyLog changed{log_, known_, group, strategy};
    if (changed.changed() == 0) return;
    WhatIfMove move{.strategy = strategy,
                    .stream = group.stream ? name(*group.stream) : "all side streams",
                    .to = name(group.to),
                    .blocks = changed.changed(),
                    .reserved = reserved_by_each(changed.log()),
                    .cost = changed.cost()};
    if (group.stack) move.site = trace::site_name(log_.stacks, *group.stack);
    std::set<std::uint64_t, std::greater<>> sizes;
    for (const trace::LoggedBlock& block : log_.blocks) {
      if (block.device == device_ && group.has(log_, block)) sizes.insert(block.bytes);
    }
    move.sizes.assign(sizes.begin(), sizes.end());
    move.cost.host_us = host_us(move);
    if (saves(move.reserved)) result_.moves.push_back(std::move(move));
  }

  /** A wait takes a record of an event and a wait for it; a transfer is no call of the driver's. */
  [[nodiscard]] std::optional<double> host_us(const WhatIfMove& move) const {
    if (!move.cost.waits_are_known) return std::nullopt;
    const Nanoseconds each = profile_.host(Call::record) + profile_.host(Call::wait);
    return static_cast<double>(move.cost.waits) * static_cast<double>(each.count()) / 1000;
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
  const std::size_t most_events_of_sites_;
  const DeviceProfile profile_;
  const KnownCompletions known_;
  WhatIf result_;
};

}  // namespace

const char* to_string(WhatIfStrategy strategy) noexcept {
  switch (strategy) {
    case WhatIfStrategy::in_place:
      return "in-place";
    case WhatIfStrategy::precise:
      return "precise";
    case WhatIfStrategy::transfer:
      return "transfer";
    case WhatIfStrategy::ring:
      return "ring";
    case WhatIfStrategy::free_list:
      return "free-list";
  }
  return "?";
}

std::vector<WhatIfStranded> stranded_bytes(const trace::AllocationLog& log, std::uint32_t device,
                                           const Policy& policy) {
  return stranded_in(replay(log, device, options_of(log, device, policy, true)), policy);
}

WhatIf what_if(const trace::AllocationLog& log, std::uint32_t device,
               const WhatIfOptions& options) {
  return Analysis{log, device, options}.run();
}

}  // namespace millrace
