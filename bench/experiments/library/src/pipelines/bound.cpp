#include "pipelines/bound.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace millrace::experiment {
namespace {

constexpr auto kEngines = static_cast<std::size_t>(Engine::count_);

/** Stores for each byte of a device's memory which operation wrote it last. */
class WrittenBytes {
 public:
  template <typename Visit>
  void last(const View& view, Visit visit) const {
    const auto [begin, end] = range(view);
    if (begin == end) return;
    for (auto it = from(begin); it != pieces_.end() && it->first < end; ++it) {
      if (it->second.end > begin) visit(it->second.writer);
    }
  }

  void write(const View& view, std::size_t writer) {
    const auto [begin, end] = range(view);
    if (begin == end) return;
    for (auto it = from(begin); it != pieces_.end() && it->first < end;) {
      const auto [old_begin, old] = *it;
      if (old.end <= begin) {
        ++it;
        continue;
      }
      it = pieces_.erase(it);
      if (old_begin < begin) pieces_[old_begin] = {begin, old.writer};
      if (old.end > end) pieces_[end] = old;
    }
    pieces_[begin] = {end, writer};
  }

 private:
  struct Piece {
    std::uintptr_t end;
    std::size_t writer;
  };
  using Pieces = std::map<std::uintptr_t, Piece>;

  static std::pair<std::uintptr_t, std::uintptr_t> range(const View& view) {
    const auto begin = reinterpret_cast<std::uintptr_t>(view.address);
    return {begin, begin + view.bytes};
  }

  /** The first piece that may extend beyond `address`. */
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

/** One operation. A collective includes its parts on all devices. */
struct Step {
  std::vector<const LoggedOperation*> parts;
  std::vector<std::size_t> after;  ///< the steps whose data it reads
  Nanoseconds alone{0};
};

/** Follows data through operations. The operations must be in an order in which they could run. */
class DataFlow {
 public:
  explicit DataFlow(std::span<const LoggedOperation> operations) {
    for (auto it = operations.begin(); it != operations.end();) {
      // A device runs one collective at a time. Therefore link operations that begin at the same
      // time belong to one collective.
      std::vector<const LoggedOperation*> parts{&*it};
      const Nanoseconds begin = it->begin;
      const bool meeting = it->engine == Engine::link;
      auto next = std::next(it);
      if (meeting) {
        std::vector<const LoggedOperation*> others;
        for (; next != operations.end() && next->begin == begin; ++next) {
          (next->engine == Engine::link ? parts : others).push_back(&*next);
        }
        for (const LoggedOperation* const other : others) add({other});
      }
      add(std::move(parts));
      it = next;
    }
  }

  [[nodiscard]] const std::vector<Step>& steps() const noexcept { return steps_; }

 private:
  void add(std::vector<const LoggedOperation*> parts) {
    Step step{std::move(parts), {}, Nanoseconds{0}};
    for (const LoggedOperation* const part : step.parts) {
      for (const View& view : part->views) {
        if (view.access == Access::write) continue;
        written_[part->device].last(view,
                                    [&](std::size_t writer) { step.after.push_back(writer); });
      }
      step.alone = std::max(step.alone, part->alone);
    }
    std::ranges::sort(step.after);
    step.after.erase(std::ranges::unique(step.after).begin(), step.after.end());
    for (const LoggedOperation* const part : step.parts) {
      for (const View& view : part->views) {
        if (view.access != Access::read) written_[part->device].write(view, steps_.size());
      }
    }
    steps_.push_back(std::move(step));
  }

  std::map<unsigned, WrittenBytes> written_;
  std::vector<Step> steps_;
};

/** Computes how long operations keep the engines of each device busy. */
class Work {
 public:
  explicit Work(const DeviceProfile& profile) : profile_(&profile) {}

  void add(const LoggedOperation& operation) {
    DeviceLoad& of = devices_[operation.device];
    if (operation.engine == Engine::compute) {
      of.seconds[kFlops] += operation.cost.flops / profile_->flops;
      of.seconds[kBytes] += operation.cost.bytes / profile_->memory_bandwidth;
      of.seconds[kHostRead] += operation.cost.host_read / profile_->host_to_device;
      of.seconds[kHostWritten] += operation.cost.host_written / profile_->device_to_host;
    } else if (operation.engine != Engine::host) {
      of.seconds[static_cast<std::size_t>(operation.engine)] +=
          static_cast<double>(operation.alone.count()) / 1e9;
    }
    most_ = std::max(most_, std::ranges::max(of.seconds));
  }

  /** The time of the busiest engine on any device. */
  [[nodiscard]] Nanoseconds most() const {
    return Nanoseconds{static_cast<Nanoseconds::rep>(std::llround(most_ * 1e9))};
  }

 private:
  // Kernels may run concurrently, but they share arithmetic, memory and the link to the host. Each
  // of these counts as an engine.
  static constexpr std::size_t kFlops = kEngines, kBytes = kEngines + 1, kHostRead = kEngines + 2,
                               kHostWritten = kEngines + 3;
  struct DeviceLoad {
    std::array<double, kEngines + 4> seconds{};
  };

  const DeviceProfile* profile_;
  std::map<unsigned, DeviceLoad> devices_;
  double most_ = 0;
};

Nanoseconds longest_chain(const std::vector<Step>& steps) {
  std::vector<Nanoseconds> ends;
  Nanoseconds longest{0};
  for (const Step& step : steps) {
    Nanoseconds begin{0};
    for (const std::size_t before : step.after) begin = std::max(begin, ends[before]);
    ends.push_back(begin + step.alone);
    longest = std::max(longest, ends.back());
  }
  return longest;
}

/**
 * The earliest time at which each step can begin.
 *
 * A step begins after all steps that its data comes from. Consider those among them that cannot
 * begin before a time t. They keep the engines busy after t, so the step cannot begin before the
 * busiest engine has finished them. This is the bound for the heads of preemptible jobs on one
 * machine (Carlier 1982).
 */
class EarliestBegins {
 public:
  EarliestBegins(const std::vector<Step>& steps, const DeviceProfile& profile)
      : steps_(steps), profile_(profile) {
    for (std::size_t i = 0; i < steps.size(); ++i) place(i);
  }

  /** The earliest time at which all steps can be complete. */
  [[nodiscard]] Nanoseconds all_done() const {
    return done(std::vector<bool>(steps_.size(), true));
  }

 private:
  void place(std::size_t i) {
    std::vector<bool> before(steps_.size());
    Nanoseconds begin{0};
    for (const std::size_t direct : steps_[i].after) {
      before[direct] = true;
      for (std::size_t other = 0; other < direct; ++other) {
        if (before_[direct][other]) before[other] = true;
      }
      begin = std::max(begin, begins_[direct] + steps_[direct].alone);
    }
    // With only one predecessor, the predecessor's own begin already accounts for all earlier
    // steps.
    if (steps_[i].after.size() > 1) begin = std::max(begin, done(before));
    begins_.push_back(begin);
    before_.push_back(std::move(before));
    const auto later = [&](std::size_t a, std::size_t b) { return begins_[a] > begins_[b]; };
    latest_first_.insert(std::ranges::upper_bound(latest_first_, i, later), i);
  }

  [[nodiscard]] Nanoseconds done(const std::vector<bool>& among) const {
    Work work{profile_};
    Nanoseconds latest{0};
    for (const std::size_t i : latest_first_) {
      if (!among[i]) continue;
      for (const LoggedOperation* const part : steps_[i].parts) work.add(*part);
      latest = std::max({latest, begins_[i] + work.most(), begins_[i] + steps_[i].alone});
    }
    return latest;
  }

  const std::vector<Step>& steps_;
  const DeviceProfile& profile_;
  std::vector<Nanoseconds> begins_;
  std::vector<std::vector<bool>> before_;
  std::vector<std::size_t> latest_first_;
};

Nanoseconds most_work(std::span<const LoggedOperation> operations, const DeviceProfile& profile) {
  Work work{profile};
  for (const LoggedOperation& operation : operations) work.add(operation);
  return work.most();
}

Nanoseconds covered(const std::vector<TimeSpan>& spans, TimeSpan window) {
  return exposure(spans, {}, window).copies;
}

}  // namespace

RuntimeBound bound_of(std::span<const LoggedOperation> operations, const DeviceProfile& profile) {
  const DataFlow flow{operations};
  return {.data_flow = longest_chain(flow.steps()),
          .engines = most_work(operations, profile),
          .both = EarliestBegins{flow.steps(), profile}.all_done()};
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

}  // namespace millrace::experiment
