#include "schedule/comparison/bound.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace millrace {
namespace {

constexpr auto kEngines = static_cast<std::size_t>(Engine::count_);
using BusyTimes = std::array<Nanoseconds, kEngines>;

/** When, on the chains so far, the bytes of one device's memory were written last. */
class WrittenBytes {
 public:
  [[nodiscard]] Nanoseconds last(const View& view) const {
    Nanoseconds latest{0};
    const auto [begin, end] = range(view);
    if (begin == end) return latest;
    for (auto it = from(begin); it != pieces_.end() && it->first < end; ++it) {
      if (it->second.end > begin) latest = std::max(latest, it->second.time);
    }
    return latest;
  }

  void write(const View& view, Nanoseconds time) {
    const auto [begin, end] = range(view);
    if (begin == end) return;
    for (auto it = from(begin); it != pieces_.end() && it->first < end;) {
      const auto [old_begin, old] = *it;
      if (old.end <= begin) {
        ++it;
        continue;
      }
      it = pieces_.erase(it);
      if (old_begin < begin) pieces_[old_begin] = {begin, old.time};
      if (old.end > end) pieces_[end] = old;
    }
    pieces_[begin] = {end, time};
  }

 private:
  struct Piece {
    std::uintptr_t end;
    Nanoseconds time;
  };
  using Pieces = std::map<std::uintptr_t, Piece>;

  static std::pair<std::uintptr_t, std::uintptr_t> range(const View& view) {
    const auto begin = reinterpret_cast<std::uintptr_t>(view.address);
    return {begin, begin + view.bytes};
  }

  /** The first piece that could reach beyond `address`. */
  [[nodiscard]] Pieces::const_iterator from(std::uintptr_t address) const {
    auto it = pieces_.upper_bound(address);
    return it == pieces_.begin() ? it : std::prev(it);
  }
  [[nodiscard]] Pieces::iterator from(std::uintptr_t address) {
    auto it = pieces_.upper_bound(address);
    return it == pieces_.begin() ? it : std::prev(it);
  }

  Pieces pieces_;
};

/** Follows data through operations, which come in an order in which they could run. */
class DataFlow {
 public:
  /** @param parts  one operation, or all the parts of one that devices do together */
  void run(std::span<const LoggedOperation* const> parts) {
    Nanoseconds begin{0}, alone{0};
    for (const LoggedOperation* const part : parts) {
      for (const View& view : part->views) {
        if (view.access != Access::write)
          begin = std::max(begin, written_[part->device].last(view));
      }
      alone = std::max(alone, part->alone);
    }
    const Nanoseconds end = begin + alone;
    longest_ = std::max(longest_, end);
    for (const LoggedOperation* const part : parts) {
      for (const View& view : part->views) {
        if (view.access != Access::read) written_[part->device].write(view, end);
      }
    }
  }

  [[nodiscard]] Nanoseconds longest() const noexcept { return longest_; }

 private:
  std::map<unsigned, WrittenBytes> written_;
  Nanoseconds longest_{0};
};

Nanoseconds longest_chain(std::span<const LoggedOperation> operations) {
  DataFlow flow;
  for (auto it = operations.begin(); it != operations.end();) {
    // A device does one meeting at a time, so what begins on links at one time is one meeting.
    std::vector<const LoggedOperation*> parts{&*it};
    const Nanoseconds begin = it->begin;
    const bool meeting = it->engine == Engine::link;
    auto next = std::next(it);
    if (meeting) {
      std::vector<const LoggedOperation*> others;
      for (; next != operations.end() && next->begin == begin; ++next) {
        (next->engine == Engine::link ? parts : others).push_back(&*next);
      }
      for (const LoggedOperation* const other : others) flow.run(std::array{other});
    }
    flow.run(parts);
    it = next;
  }
  return flow.longest();
}

Nanoseconds seconds(double value) {
  return Nanoseconds{static_cast<Nanoseconds::rep>(std::llround(value * 1e9))};
}

/** The work of the engine that has most, on the device that has most. */
Nanoseconds most_work(std::span<const LoggedOperation> operations, const DeviceProfile& profile) {
  struct Work {
    double flops = 0, bytes = 0;
    BusyTimes alone{};
  };
  std::map<unsigned, Work> devices;
  for (const LoggedOperation& operation : operations) {
    Work& work = devices[operation.device];
    if (operation.engine == Engine::compute) {
      work.flops += operation.cost.flops;
      work.bytes += operation.cost.bytes;
    } else if (operation.engine != Engine::host) {
      work.alone[static_cast<std::size_t>(operation.engine)] += operation.alone;
    }
  }
  Nanoseconds most{0};
  for (const auto& [device, work] : devices) {
    most = std::max({most, seconds(work.flops / profile.flops),
                     seconds(work.bytes / profile.memory_bandwidth), std::ranges::max(work.alone)});
  }
  return most;
}

Nanoseconds covered(const std::vector<TimeSpan>& spans, TimeSpan window) {
  return exposure(spans, {}, window).copies;
}

}  // namespace

RuntimeBound bound_of(std::span<const LoggedOperation> operations, const DeviceProfile& profile) {
  return {.data_flow = longest_chain(operations), .engines = most_work(operations, profile)};
}

EngineTimes engine_times(std::span<const LoggedOperation> operations, unsigned device,
                         TimeSpan window) {
  std::array<std::vector<TimeSpan>, kEngines> spans;
  for (const LoggedOperation& operation : operations) {
    if (operation.device != device) continue;
    spans[static_cast<std::size_t>(operation.engine)].push_back({operation.begin, operation.end});
  }
  const auto& compute = spans[static_cast<std::size_t>(Engine::compute)];
  const auto& copies = spans[static_cast<std::size_t>(Engine::host_to_device)];
  const auto& exchanges = spans[static_cast<std::size_t>(Engine::link)];
  EngineTimes times;
  for (std::size_t i = 0; i < kEngines; ++i) times.busy[i] = covered(spans[i], window);
  times.exposed_copies = exposure(copies, compute, window).exposed;
  times.exposed_exchanges = exposure(exchanges, compute, window).exposed;
  return times;
}

}  // namespace millrace
