#include "observe/explain/moment.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace millrace {

namespace {

using trace::LoggedBlock;

/** Adds up shares of the same kind, stream, pool and site. */
class ShareSum {
 public:
  struct Key {
    MemoryPart part;
    std::uint32_t stream;
    trace::TorchPool pool;
    std::uint32_t site;
    bool whole;

    friend auto operator<=>(const Key&, const Key&) = default;
  };

  void add(const Key& key, std::uint64_t bytes, std::uint64_t blocks, std::uint32_t since,
           std::uint32_t until) {
    if (bytes == 0) return;
    const auto [known, fresh] = shares_.try_emplace(key);
    Sum& sum = known->second;
    sum.bytes += bytes;
    sum.blocks += blocks;
    // A time before the log is earlier than all events, and a time after the log is later.
    const std::int64_t at = since == BlockTimes::kNever ? -1 : std::int64_t{since};
    sum.first = fresh ? at : std::min(sum.first, at);
    sum.last = std::max(sum.last, at);
    sum.until = std::max(sum.until, until);
  }

  [[nodiscard]] std::vector<MemoryShare> shares() const {
    std::vector<MemoryShare> result;
    for (const auto& [key, sum] : shares_) {
      result.push_back({.part = key.part,
                        .stream = key.stream,
                        .pool = key.pool,
                        .site = key.site,
                        .whole = key.whole,
                        .blocks = sum.blocks,
                        .bytes = sum.bytes,
                        .first = event(sum.first),
                        .last = event(sum.last),
                        .until = ends(key.part) ? BlockTimes::known(sum.until) : std::nullopt});
    }
    std::ranges::stable_sort(result, std::greater{}, &MemoryShare::bytes);
    return result;
  }

 private:
  struct Sum {
    std::uint64_t bytes = 0, blocks = 0;
    std::int64_t first = -1, last = -1;
    std::uint32_t until = 0;
  };

  /** Whether the asker must wait before it can use the memory. Memory of other streams and pools
   * stays theirs. */
  static bool ends(MemoryPart part) {
    return part != MemoryPart::stream && part != MemoryPart::pool && part != MemoryPart::soft &&
           part != MemoryPart::driver;
  }

  static std::optional<std::size_t> event(std::int64_t at) {
    if (at < 0) return std::nullopt;
    return static_cast<std::size_t>(at);
  }

  std::map<Key, Sum> shares_;
};

/** Returns how many of a block's first `bytes` are between two offsets. */
std::uint64_t overlap(std::uint64_t bytes, std::uint64_t from, std::uint64_t to) {
  return std::min(bytes, to) - std::min(bytes, from);
}

}  // namespace

/** Divides the stretches of a moment for one asker. */
class MomentDivider {
 public:
  /** @param shares_streams  whether free memory is not bound to the streams of segments */
  MomentDivider(const ExplainEnvironment& environment, const MemoryAsker& asker,
                bool shares_streams)
      : environment_(environment), asker_(asker), shares_streams_(shares_streams) {}

  void add_block(const Stretch& stretch) {
    const LoggedBlock& block = environment_.log.blocks[stretch.block];
    const std::uint64_t from = stretch.begin - block.address, to = stretch.end - block.address;
    const std::uint64_t first = from == 0 ? 1 : 0;
    ShareSum::Key key{MemoryPart::live, block.stream, stretch.segment->pool,
                      environment_.sites.of_block(stretch.block), false};
    const BlockTimes& times = environment_.times;
    if (stretch.waits) {
      key.part = MemoryPart::waiting;
      return sum_.add(key, to - from, first, times.freed(stretch.block),
                      times.completed(stretch.block));
    }
    const std::uint32_t since = times.allocated(stretch.block), until = times.freed(stretch.block);
    const std::uint64_t rounded =
        environment_.log.snapshot
            ? std::max(block.bytes,
                       trace::torch_rounded(block.bytes, environment_.log.snapshot->settings))
            : to;
    const std::uint64_t live = overlap(block.bytes, from, to);
    const std::uint64_t rounding = overlap(rounded, from, to) - live;
    sum_.add(key, live, first, since, until);
    key.part = MemoryPart::rounding;
    sum_.add(key, rounding, first, since, until);
    key.part = MemoryPart::rest;
    sum_.add(key, to - from - live - rounding, first, since, until);
    placed_live_ += live;
  }

  void add_free(const Stretch& stretch, const FreePiece& piece) {
    const MemoryMap::Segment& segment = *stretch.segment;
    const bool by_user = shares_streams_ && piece.user != Stretch::kNoBlock;
    const std::uint32_t stream =
        by_user ? environment_.log.blocks[piece.user].stream : segment.stream;
    ShareSum::Key key{part_of(stretch, stream), stream, segment.pool, 0, stretch.whole};
    const bool kept = key.part == MemoryPart::hard;
    if (kept) {
      key.site = environment_.sites.of_block(stretch.block);
    } else if (piece.user != Stretch::kNoBlock) {
      key.site = environment_.sites.of_block(piece.user);
    } else {
      key.site = environment_.sites.of_kind(piece.freed ? SiteKind::unused : SiteKind::unknown);
    }
    sum_.add(key, piece.end - piece.begin, 1, piece.freed.value_or(BlockTimes::kNever),
             kept ? environment_.times.completed(stretch.block) : 0);
  }

  /** Counts the first bytes of a block whose segment is not in the log. */
  void add_unplaced(const MemoryMap::Held& held, std::uint64_t bytes) {
    const LoggedBlock& block = environment_.log.blocks[held.block];
    const BlockTimes& times = environment_.times;
    ShareSum::Key key{MemoryPart::live, block.stream, block.pool,
                      environment_.sites.of_block(held.block), false};
    if (held.waits) {
      key.part = MemoryPart::waiting;
      return sum_.add(key, bytes, 1, times.freed(held.block), times.completed(held.block));
    }
    sum_.add(key, bytes, 1, times.allocated(held.block), times.freed(held.block));
    placed_live_ += bytes;
  }

  /** Counts the bytes of the driver's pool that no block has. */
  void add_driver(std::uint64_t bytes) {
    sum_.add({MemoryPart::driver, MemoryShare::kNoStream, trace::TorchPool{0, 0},
              environment_.sites.of_kind(SiteKind::driver), false},
             bytes, 1, BlockTimes::kNever, 0);
  }

  [[nodiscard]] std::vector<MemoryShare> shares() const { return sum_.shares(); }
  [[nodiscard]] std::uint64_t placed_live() const noexcept { return placed_live_; }

 private:
  [[nodiscard]] MemoryPart part_of(const Stretch& stretch, std::uint32_t stream) const {
    if (stretch.segment->pool != asker_.pool) return MemoryPart::pool;
    if (stream != asker_.stream) return MemoryPart::stream;
    return stretch.whole ? MemoryPart::soft : MemoryPart::hard;
  }

  const ExplainEnvironment& environment_;
  const MemoryAsker& asker_;
  const bool shares_streams_;
  ShareSum sum_;
  std::uint64_t placed_live_ = 0;
};

namespace {

MemoryMap map_at(const ExplainEnvironment& environment, const DeviceLog& device,
                 std::optional<std::size_t> event) {
  MemoryMap map{environment.log, device, environment.times, environment.streams, environment.ends};
  for (std::size_t i = 0; event && i <= *event; ++i)
    map.apply(environment.log.events[device.events[i]]);
  return map;
}

}  // namespace

MomentView::MomentView(const ExplainEnvironment& environment, const DeviceLog& device,
                       std::optional<std::size_t> event)
    : environment_(environment),
      device_(device),
      event_(event),
      map_(map_at(environment, device, event)),
      stretches_(stretches_of(map_, environment.times)),
      pieces_(last_users(environment.log, device, environment.times, event ? *event + 1 : 0,
                         stretches_, environment.ends)) {}

MemoryMoment MomentView::explain(MemoryAsker asker, const Moments& of_log) {
  if (!asker.requests) asker = busiest();
  MomentDivider divider{environment_, asker, of_log.shares_streams};
  for (const Stretch& stretch : stretches_) {
    if (!stretch.is_free) divider.add_block(stretch);
  }
  for (const FreePiece& piece : pieces_) divider.add_free(stretches_[piece.stretch], piece);
  if (of_log.knows_segments) {
    add_unplaced(divider);
  } else {
    for (const auto& [address, held] : map_.blocks()) {
      if (!held.waits) divider.add_unplaced(held, map_.bytes_of(held.block));
    }
  }
  MemoryMoment moment;
  if (event_) moment.event = device_.events[*event_];
  moment.asker = asker;
  if (of_log.knows_segments) moment.reserved = map_.reserved();
  moment.unplaced = map_.unplaced();
  moment.knows_rounding = environment_.log.snapshot.has_value() ||
                          std::ranges::any_of(environment_.log.blocks,
                                              [](const LoggedBlock& b) { return b.held != 0; });
  moment.shares = divider.shares();
  moment.elsewhere = map_.live() - divider.placed_live();
  return moment;
}

// The driver's pool has the blocks that are in no segment, live ones first. Blocks beyond its bytes
// are in a pool that was not recorded.
void MomentView::add_unplaced(MomentDivider& divider) const {
  std::uint64_t room = map_.unplaced();
  for (const bool waits : {false, true}) {
    for (auto at = map_.blocks().begin(); at != map_.blocks().end() && room > 0; ++at) {
      if (at->second.waits != waits || !map_.may_be_unplaced(at->first, at->second)) continue;
      const std::uint64_t bytes = std::min(room, map_.bytes_of(at->second.block));
      divider.add_unplaced(at->second, bytes);
      room -= bytes;
    }
  }
  if (room > 0) divider.add_driver(room);
}

std::optional<std::size_t> MomentView::freed(std::uint64_t begin, std::uint64_t end) const {
  std::optional<std::size_t> last;
  for (const FreePiece& piece : pieces_) {
    if (piece.begin >= end || piece.end <= begin || !piece.freed) continue;
    last = std::max<std::size_t>(last.value_or(0), *piece.freed);
  }
  return last;
}

MemoryAsker MomentView::busiest() const {
  using Place = std::pair<std::uint32_t, trace::TorchPool>;
  std::map<Place, std::uint64_t> live;
  for (const auto& [address, held] : map_.blocks()) {
    const LoggedBlock& block = environment_.log.blocks[held.block];
    if (!held.waits) live[{block.stream, block.pool}] += block.bytes;
  }
  const auto most =
      std::ranges::max_element(live, {}, &std::pair<const Place, std::uint64_t>::second);
  if (most == live.end()) return {};
  return {.stream = most->first.first, .pool = most->first.second};
}

bool MemoryMoment::knows(MemoryPart part) const noexcept {
  if (part == MemoryPart::live) return true;
  const bool is_rounding = part == MemoryPart::rounding || part == MemoryPart::rest;
  return reserved.has_value() && (knows_rounding || !is_rounding);
}

std::uint64_t MemoryMoment::bytes(MemoryPart part) const {
  std::uint64_t sum = 0;
  for (const MemoryShare& share : shares) {
    if (share.part == part) sum += share.bytes;
  }
  return sum;
}

}  // namespace millrace
