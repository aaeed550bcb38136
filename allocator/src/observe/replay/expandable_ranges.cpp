#include "observe/replay/expandable_ranges.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace millrace {
namespace {

using trace::EventKind;
using trace::TorchPool;

class Ranges {
 public:
  Ranges(const trace::AllocationLog& log, std::uint32_t device, const Policy& policy)
      : log_(log), device_(device), policy_(policy) {}

  std::optional<std::vector<ExpandableRange>> find() {
    if (device_ < log_.initial.size()) {
      for (const trace::TorchSegment& segment : log_.initial[device_].segments) {
        if (!segment.expandable) continue;
        const auto stream = static_cast<std::uint64_t>(segment.stream);
        map({stream, segment.pool, !segment.large}, segment.address, segment.bytes,
            ExpandableRange::kFromTheStart);
      }
    }
    if (!in_own_ranges()) return std::nullopt;
    find_requests();
    for (std::size_t i = 0; i < log_.events.size(); ++i) {
      const trace::LogEvent& event = log_.events[i];
      if (event.device != device_) continue;
      if (event.kind == EventKind::segment_unmap) unmap(event.address, event.bytes);
      if (event.kind == EventKind::segment_map) {
        const auto beside = key_beside(event);
        map(beside ? *beside : key_of(event, request_after_[i]), event.address, event.bytes, i);
      }
    }
    if (!whole_) return std::nullopt;
    return std::move(ranges_);
  }

 private:
  using Key = std::tuple<std::uint64_t, TorchPool, bool>;  // stream, pool, small

  struct Mapped {
    std::size_t range = 0;  // index into `ranges_`
    std::uint64_t bytes = 0;
  };

  /** Whether each stretch at the start belongs to the last range that begins before it. */
  [[nodiscard]] bool in_own_ranges() const {
    std::map<std::uint64_t, Key> begins;
    for (const auto& [key, mapped] : mapped_) begins[ranges_[mapped.range].base] = key;
    if (begins.size() != mapped_.size()) return false;
    for (const auto& [address, piece] : by_address_) {
      const auto after = begins.upper_bound(address);
      if (after == begins.begin() || std::prev(after)->second != piece.key) return false;
    }
    return true;
  }

  /** For each event, the block of the device's next request. Memory is mapped for that request. */
  void find_requests() {
    request_after_.resize(log_.events.size(), trace::LogEvent::kNoBlock);
    std::uint32_t block = trace::LogEvent::kNoBlock;
    for (std::size_t i = log_.events.size(); i-- > 0;) {
      const trace::LogEvent& event = log_.events[i];
      if (event.device != device_) continue;
      if (event.kind == EventKind::allocate) block = event.block;
      request_after_[i] = block;
    }
  }

  /** Finds memory of the same stream that is adjacent to the event's memory. Memory that was mapped
   * for a failed request has no request in the log. */
  [[nodiscard]] std::optional<Key> key_beside(const trace::LogEvent& event) const {
    const std::uint64_t stream = log_.streams[event.stream].handle;
    const auto after = by_address_.lower_bound(event.address);
    const auto is_it = [&](auto piece, std::uint64_t at, std::uint64_t of_event) {
      return at == of_event && std::get<0>(piece->second.key) == stream;
    };
    if (after != by_address_.end() && is_it(after, after->first, event.address + event.bytes))
      return after->second.key;
    if (after == by_address_.begin()) return std::nullopt;
    const auto before = std::prev(after);
    if (is_it(before, before->second.end, event.address)) return before->second.key;
    return std::nullopt;
  }

  [[nodiscard]] Key key_of(const trace::LogEvent& event, std::uint32_t block) const {
    const std::uint64_t stream = log_.streams[event.stream].handle;
    if (block == trace::LogEvent::kNoBlock) return {stream, {}, false};
    const trace::LoggedBlock& request = log_.blocks[block];
    return {stream, request.pool, policy_.round(request.bytes) <= policy_.small_limit};
  }

  void map(const Key& key, std::uint64_t address, std::uint64_t bytes, std::size_t event) {
    const auto [known, fresh] = mapped_.try_emplace(key);
    if (fresh) {
      const auto& [stream, pool, small] = key;
      known->second.range = ranges_.size();
      ranges_.push_back({.base = address,
                         .page = small ? policy_.small_segment : policy_.medium_segment,
                         .small = small,
                         .stream = stream,
                         .pool = pool,
                         .since = event});
    }
    ExpandableRange& range = ranges_[known->second.range];
    const std::uint64_t distance = std::max(range.base, address) - std::min(range.base, address);
    if (distance % range.page != 0 || bytes % range.page != 0 || bytes == 0) whole_ = false;
    range.base = std::min(range.base, address);
    known->second.bytes += bytes;
    by_address_[address] = {address + bytes, key};
  }

  void unmap(std::uint64_t address, std::uint64_t bytes) {
    auto piece = by_address_.upper_bound(address);
    if (piece == by_address_.begin()) return;
    --piece;
    const auto mapped = mapped_.find(piece->second.key);
    if (mapped == mapped_.end() || address >= piece->second.end) return;
    const std::size_t page = ranges_[mapped->second.range].page;
    if (bytes == 0 || bytes % page != 0) whole_ = false;
    cut(address, address + bytes);
    mapped->second.bytes -= std::min(mapped->second.bytes, bytes);
    if (mapped->second.bytes == 0) mapped_.erase(mapped);
  }

  struct Piece {
    std::uint64_t end = 0;
    Key key;
  };

  // Removes the memory between two addresses.
  void cut(std::uint64_t from, std::uint64_t to) {
    for (const std::uint64_t at : {from, to}) {
      const auto after = by_address_.lower_bound(at);
      if (after == by_address_.begin()) continue;
      Piece& before = std::prev(after)->second;
      if (before.end <= at) continue;
      by_address_[at] = before;
      before.end = at;
    }
    by_address_.erase(by_address_.lower_bound(from), by_address_.lower_bound(to));
  }

  const trace::AllocationLog& log_;
  const std::uint32_t device_;
  const Policy& policy_;
  std::vector<std::uint32_t> request_after_;
  std::vector<ExpandableRange> ranges_;
  std::map<Key, Mapped> mapped_;               // ranges with memory at this event
  std::map<std::uint64_t, Piece> by_address_;  // that memory
  bool whole_ = true;
};

}  // namespace

std::optional<std::vector<ExpandableRange>> expandable_ranges(const trace::AllocationLog& log,
                                                              std::uint32_t device,
                                                              const Policy& policy) {
  return Ranges{log, device, policy}.find();
}

}  // namespace millrace
