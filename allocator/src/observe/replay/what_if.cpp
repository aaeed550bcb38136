#include "millrace/observe/what_if.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "millrace/memory/out_of_memory.hpp"
#include "millrace/observe/program_change.hpp"
#include "millrace/observe/replay.hpp"
#include "observe/replay/known_completions.hpp"
#include "observe/replay/strategy_log.hpp"

namespace millrace {
namespace {

using trace::AllocationLog;
using trace::EventKind;
using trace::LogEvent;
using trace::StackTable;

// The largest by bytes. Each is tried with several strategies, and each strategy is replayed on
// each allocator.
constexpr std::size_t kMostStreams = 6;
constexpr std::size_t kMostSitesOfStream = 6;
constexpr std::size_t kMostSites = 12;  // of all streams

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

/** Returns the largest sites of a replay that has sites and a ladder. */
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
  if (policy.sharing == Sharing::own_stream) {  // a free block serves its own stream only
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

  struct SideStream {
    std::uint32_t stream = 0;
    std::uint64_t bytes = 0;
    std::map<StackTable::Id, std::uint64_t> bytes_of_sites;
  };

  /** By bytes. */
  [[nodiscard]] std::vector<SideStream> side_streams(std::uint32_t main) const {
    std::map<std::uint32_t, SideStream> by_number;
    for (const trace::LoggedBlock& block : log_.blocks) {
      const bool may_move =
          block.device == device_ && block.stream != main && !log_.streams[block.stream].for_all;
      if (!may_move) continue;
      SideStream& side = by_number[block.stream];
      side.stream = block.stream;
      side.bytes += block.bytes;
      side.bytes_of_sites[block.stack] += block.bytes;
    }
    std::vector<SideStream> streams;
    for (auto& [number, side] : by_number) streams.push_back(std::move(side));
    std::ranges::stable_sort(streams, std::greater{}, &SideStream::bytes);
    return streams;
  }

  /** Returns none if the stream has one site, which is the same as the whole stream. */
  [[nodiscard]] static std::vector<StackTable::Id> largest_sites(const SideStream& side) {
    if (side.bytes_of_sites.size() < 2) return {};
    std::vector<std::pair<std::uint64_t, StackTable::Id>> largest;
    for (const auto& [stack, bytes] : side.bytes_of_sites) largest.emplace_back(bytes, stack);
    std::ranges::sort(largest, std::greater{});
    std::vector<StackTable::Id> sites;
    for (const auto& [bytes, stack] : largest | std::views::take(kMostSitesOfStream))
      sites.push_back(stack);
    return sites;
  }

  // Some programs create a stream for each call, and some have hundreds of sites. So only the
  // largest of both are tried.
  [[nodiscard]] std::vector<WhatIfGroup> groups() const {
    const auto main = main_stream(log_, device_);
    if (!main) return {};
    const std::vector<SideStream> streams = side_streams(*main);
    std::vector<WhatIfGroup> groups;
    if (streams.size() > 1) groups.push_back({std::nullopt, *main, std::nullopt});
    std::size_t sites = 0;
    for (const SideStream& side : streams | std::views::take(kMostStreams)) {
      groups.push_back({side.stream, *main, std::nullopt});
      for (const StackTable::Id site : largest_sites(side)) {
        if (sites++ < kMostSites) groups.push_back({side.stream, *main, site});
      }
    }
    return groups;
  }

  [[nodiscard]] std::size_t blocks_of(const WhatIfGroup& group) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(log_.blocks, [&](const trace::LoggedBlock& block) {
          return block.device == device_ && group.has(log_, block);
        }));
  }

  [[nodiscard]] std::vector<std::uint64_t> sizes_of(
      const std::vector<std::uint32_t>& blocks) const {
    std::set<std::uint64_t, std::greater<>> sizes;
    for (const std::uint32_t block : blocks) sizes.insert(log_.blocks[block].bytes);
    return {sizes.begin(), sizes.end()};
  }

  void attempt_move(const WhatIfGroup& group, WhatIfStrategy strategy) {
    const StrategyLog changed{log_, known_, group, strategy};
    if (changed.changed().empty()) return;
    WhatIfMove move{.strategy = strategy,
                    .stream = group.stream ? name(*group.stream) : "all side streams",
                    .to = name(group.to),
                    .site = group.stack ? trace::site_name(log_.stacks, *group.stack) : "",
                    .sizes = sizes_of(changed.changed()),
                    .blocks = changed.changed().size(),
                    .group_blocks = blocks_of(group),
                    .reserved = reserved_by_each(changed.log()),
                    .cost = changed.cost()};
    move.cost.host_us = host_us(move);
    if (saves(move.reserved)) result_.moves.push_back(std::move(move));
  }

  /** A wait costs a record of an event and a wait for it. A transfer makes no driver call. */
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
