#include <algorithm>
#include <functional>

#include "observe/explain/moment.hpp"

namespace millrace {

namespace {

using trace::LogEvent;

constexpr std::uint64_t kSmallRequest = 1U
                                        << 20;  // at most; PyTorch has a pool of its own for them
constexpr std::uint64_t kMediumRequest = 10U << 20;
constexpr std::uint64_t kSegmentUnit = 2U << 20;

using Which = std::function<bool(const Stretch&)>;

/** Returns the largest free range of addresses in the segments that `which` selects. */
std::optional<FreeRange> largest_free(const MomentView& view, const Which& which) {
  std::uint64_t best_begin = 0, best_end = 0, begin = 0, end = 0;
  const Stretch* best = nullptr;
  const Stretch* last = nullptr;
  for (const Stretch& stretch : view.stretches()) {
    if (!stretch.is_free || !which(stretch)) continue;
    const bool continues = last != nullptr && stretch.begin == end &&
                           (stretch.segment == last->segment ||
                            (stretch.segment->expandable && last->segment->expandable &&
                             stretch.segment->stream == last->segment->stream &&
                             stretch.segment->pool == last->segment->pool));
    if (!continues) begin = stretch.begin;
    end = stretch.end;
    last = &stretch;
    if (end - begin > best_end - best_begin) {
      best = &stretch;
      best_begin = begin;
      best_end = end;
    }
  }
  if (best == nullptr) return std::nullopt;
  return FreeRange{best_end - best_begin, best->segment->stream, best->segment->pool,
                   view.freed(best_begin, best_end)};
}

std::optional<FreeRange> largest_waiting(const MomentView& view,
                                         const ExplainEnvironment& environment,
                                         const Which& which) {
  const Stretch* best = nullptr;
  for (const Stretch& stretch : view.stretches()) {
    const bool counts = stretch.waits && which(stretch);
    if (counts && (best == nullptr || stretch.bytes() > best->bytes())) best = &stretch;
  }
  if (best == nullptr) return std::nullopt;
  return FreeRange{best->bytes(), best->segment->stream, best->segment->pool,
                   BlockTimes::known(environment.times.freed(best->block))};
}

/** Returns the largest request that new memory from the device can serve; 0: none. */
std::uint64_t by_new_memory(std::uint64_t device_free, const trace::TorchSettings& settings) {
  const std::uint64_t pages = device_free / kSegmentUnit * kSegmentUnit;
  if (settings.expandable_segments || pages >= kMediumRequest) return pages;
  return 0;  // a smaller request takes a segment of 20 MiB, or is small
}

class Failure {
 public:
  Failure(const ExplainEnvironment& environment, MomentView& view, const LogEvent& event,
          FailedRequest& failed, bool shares_streams)
      : environment_(environment),
        view_(view),
        asker_(failed.memory.asker),
        failed_(failed),
        shares_streams_(shares_streams) {
    if (environment.log.snapshot) {
      const trace::TorchEvent& recorded =
          environment.log.snapshot->traces.at(event.device).at(event.position);
      failed.device_free = recorded.address;
    } else if (event.device < environment.log.device_memory.size() &&
               environment.log.device_memory[event.device] != 0) {
      const std::uint64_t all = environment.log.device_memory[event.device];
      failed.device_free = all - std::min(all, held());
      failed.device_is_whole = true;
    }
  }

  void find_ranges() {
    const auto fits_class = [this](const Stretch& stretch) {
      return !environment_.log.snapshot ||
             stretch.segment->large == (failed_.bytes > kSmallRequest);
    };
    const auto same_pool = [this](const Stretch& s) { return s.segment->pool == asker_.pool; };
    const auto same_stream = [this](const Stretch& s) {
      return shares_streams_ || s.segment->stream == asker_.stream;
    };
    failed_.own = largest_free(
        view_, [&](const Stretch& s) { return fits_class(s) && same_pool(s) && same_stream(s); });
    failed_.other =
        largest_free(view_, [&](const Stretch& s) { return same_pool(s) && !same_stream(s); });
    failed_.pool = largest_free(view_, [&](const Stretch& s) { return !same_pool(s); });
    failed_.waiting = largest_waiting(view_, environment_, [&](const Stretch& s) {
      return fits_class(s) && same_pool(s) && same_stream(s);
    });
  }

  void find_reason() {
    if (failed_.device_free) failed_.reason = beyond(held() + *failed_.device_free);
    if (failed_.memory.reserved && failed_.reason == FailureReason::unknown)
      failed_.reason = among_free();
    const std::uint64_t own = failed_.own ? failed_.own->bytes : 0;
    if (environment_.log.snapshot && failed_.memory.reserved && failed_.device_free) {
      failed_.would_fit =
          std::max(by_new_memory(*failed_.device_free, environment_.log.snapshot->settings), own);
    } else if (own != 0) {
      failed_.would_fit = own;
    }
  }

 private:
  /** Least bytes that this allocator had from the device. */
  [[nodiscard]] std::uint64_t held() const {
    return failed_.memory.reserved.value_or(failed_.memory.bytes(MemoryPart::live));
  }

  /** Whether no allocator could have served the request from `all` bytes of the device. */
  [[nodiscard]] FailureReason beyond(std::uint64_t all) const {
    if (failed_.bytes > all) return FailureReason::beyond_device;
    const std::uint64_t live = std::min(all, failed_.memory.bytes(MemoryPart::live));
    return failed_.bytes > all - live ? FailureReason::live : FailureReason::unknown;
  }

  [[nodiscard]] FailureReason among_free() const {
    const MemoryMoment& memory = failed_.memory;
    const auto serves = [this](const std::optional<FreeRange>& range) {
      return range && range->bytes >= failed_.bytes;
    };
    if (serves(failed_.own)) return FailureReason::unused;
    if (serves(failed_.waiting)) return FailureReason::waiting;
    if (serves(failed_.other)) return FailureReason::stream;
    if (serves(failed_.pool)) return FailureReason::pool;
    if (!failed_.device_free) return FailureReason::unknown;
    // Other users of the device may have had the rest of its memory.
    const std::uint64_t device_free = failed_.device_is_whole ? 0 : *failed_.device_free;
    const std::uint64_t own = memory.bytes(MemoryPart::hard) + memory.bytes(MemoryPart::soft);
    if (failed_.bytes <= own + device_free) return FailureReason::hard;
    const std::uint64_t others = memory.bytes(MemoryPart::stream) + memory.bytes(MemoryPart::pool) +
                                 memory.bytes(MemoryPart::waiting) +
                                 memory.bytes(MemoryPart::driver);
    if (failed_.bytes <= own + others + device_free) return FailureReason::scattered;
    // The memory of other users decides whether they or a fragmented device are the reason.
    return failed_.device_is_whole ? FailureReason::unknown : FailureReason::outside;
  }

  const ExplainEnvironment& environment_;
  const MomentView& view_;
  const MemoryAsker& asker_;
  FailedRequest& failed_;
  const bool shares_streams_;
};

}  // namespace

FailedRequest explain_failure(const ExplainEnvironment& environment, const DeviceLog& device,
                              std::size_t number, const Moments& of_log) {
  const LogEvent& event = environment.log.events[device.events[number]];
  MemoryAsker asker{
      .stream = event.stream, .requests = true, .bytes = event.bytes, .stack = event.stack};
  if (environment.log.snapshot) {
    const auto& recorded = environment.log.snapshot->traces.at(event.device).at(event.position);
    asker.pool = recorded.pool.value_or(trace::TorchPool{0, 0});
  }
  MomentView view{environment, device, number};
  FailedRequest failed{.event = device.events[number], .bytes = event.bytes};
  failed.memory = view.explain(asker, of_log);
  Failure failure{environment, view, event, failed, of_log.shares_streams};
  failure.find_ranges();
  failure.find_reason();
  return failed;
}

}  // namespace millrace
