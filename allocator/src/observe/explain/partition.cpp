#include "observe/explain/partition.hpp"

#include <algorithm>
#include <iterator>
#include <map>

namespace millrace {

namespace {

using trace::EventKind;
using trace::LogEvent;

/** Divides a segment into stretches, page by page. A segment that is not expandable is one page. */
class Cutter {
 public:
  Cutter(const MemoryMap& map, const BlockTimes& times, std::vector<Stretch>& out)
      : map_(map), times_(times), out_(out) {}

  void cut(std::uint64_t address, const MemoryMap::Segment& segment) {
    base_ = at_ = address;
    segment_ = &segment;
    page_ = segment.expandable ? map_.page_bytes(segment) : segment.end - address;
    keeper_ = Stretch::kNoBlock;
    in_page_.clear();
    auto block = map_.blocks().lower_bound(address);
    if (block != map_.blocks().begin() && std::prev(block)->second.end > address) --block;
    for (; block != map_.blocks().end() && block->first < segment.end; ++block) {
      const std::uint64_t begin = std::max(block->first, at_);
      const std::uint64_t end = std::min(block->second.end, segment.end);
      add_free(begin);
      if (end > at_) add_block(block->second, end);
    }
    add_free(segment.end);
    close_page();
  }

 private:
  [[nodiscard]] std::uint64_t page_of(std::uint64_t address) const {
    return (address - base_) / page_;
  }
  [[nodiscard]] std::uint64_t page_end(std::uint64_t page) const {
    return std::min(base_ + (page + 1) * page_, segment_->end);
  }

  void add_block(const MemoryMap::Held& held, std::uint64_t end) {
    keep(held.block);
    out_.push_back(
        {.begin = at_, .end = end, .segment = segment_, .waits = held.waits, .block = held.block});
    if (page_of(end - 1) != page_of(at_)) {
      close_page();
      keep(held.block);
    }
    at_ = end;
    if (at_ == page_end(page_of(at_ - 1))) close_page();
  }

  // A gap consists of the rest of a page, whole pages, and the start of another page.
  void add_free(std::uint64_t end) {
    if (end <= at_) return;
    const std::uint64_t page = page_of(at_);
    const bool at_page_begin = at_ == base_ + page * page_;
    if (!at_page_begin || end < page_end(page)) {
      add_in_page(std::min(end, page_end(page)));
      if (end <= at_) return;
    }
    const std::uint64_t whole_end =
        end == segment_->end ? end
                             : base_ + page_of(end) * page_;  // page_of(end) is in the segment
    if (whole_end > at_) {
      out_.push_back(
          {.begin = at_, .end = whole_end, .segment = segment_, .is_free = true, .whole = true});
      at_ = whole_end;
    }
    if (end > at_) add_in_page(end);
  }

  void add_in_page(std::uint64_t end) {
    in_page_.push_back(out_.size());
    out_.push_back({.begin = at_, .end = end, .segment = segment_, .is_free = true});
    at_ = end;
    if (at_ == page_end(page_of(at_ - 1))) close_page();
  }

  // The block that is freed last keeps its page from being released. If several are never freed,
  // the largest counts.
  void keep(std::uint32_t block) {
    const auto rank = [&](std::uint32_t b) {
      return std::pair{times_.completed(b), map_.bytes_of(b)};
    };
    if (keeper_ == Stretch::kNoBlock || rank(block) > rank(keeper_)) keeper_ = block;
  }

  void close_page() {
    for (const std::size_t free : in_page_) {
      out_[free].block = keeper_;
      out_[free].whole = keeper_ == Stretch::kNoBlock;
    }
    in_page_.clear();
    keeper_ = Stretch::kNoBlock;
  }

  const MemoryMap& map_;
  const BlockTimes& times_;
  std::vector<Stretch>& out_;
  const MemoryMap::Segment* segment_ = nullptr;
  std::uint64_t base_ = 0, at_ = 0, page_ = 1;
  std::uint32_t keeper_ = Stretch::kNoBlock;
  std::vector<std::size_t> in_page_;  // free stretches in the current page
};

/** Free bytes whose last user is not known yet, by address. */
class Unclaimed {
 public:
  Unclaimed(const std::vector<Stretch>& stretches, std::vector<FreePiece>& out) : out_(out) {
    for (std::uint32_t i = 0; i < stretches.size(); ++i) {
      const Stretch& stretch = stretches[i];
      if (stretch.is_free)
        pieces_.emplace_hint(pieces_.end(), stretch.begin, Piece{stretch.end, i});
    }
  }

  [[nodiscard]] bool empty() const { return pieces_.empty(); }

  /** Notes that this block was the last user of the free bytes in a range. */
  void claim(std::uint64_t from, std::uint64_t to, std::uint32_t user,
             std::optional<std::uint32_t> freed) {
    auto piece = pieces_.lower_bound(from);
    if (piece != pieces_.begin() && std::prev(piece)->second.end > from) --piece;
    while (piece != pieces_.end() && piece->first < to) {
      const std::uint64_t begin = piece->first;
      const auto [end, stretch] = piece->second;
      const std::uint64_t cut_begin = std::max(begin, from), cut_end = std::min(end, to);
      out_.push_back({stretch, cut_begin, cut_end, user, freed});
      piece = pieces_.erase(piece);
      if (begin < cut_begin) pieces_.emplace(begin, Piece{cut_begin, stretch});
      if (cut_end < end) pieces_.emplace(cut_end, Piece{end, stretch});
    }
  }

  void claim_rest() {
    for (const auto& [begin, piece] : pieces_) {
      out_.push_back({piece.stretch, begin, piece.end, Stretch::kNoBlock, std::nullopt});
    }
    pieces_.clear();
  }

 private:
  struct Piece {
    std::uint64_t end;
    std::uint32_t stretch;
  };
  std::map<std::uint64_t, Piece> pieces_;
  std::vector<FreePiece>& out_;
};

}  // namespace

std::vector<Stretch> stretches_of(const MemoryMap& map, const BlockTimes& times) {
  std::vector<Stretch> stretches;
  Cutter cutter{map, times, stretches};
  for (const auto& [address, segment] : map.segments()) cutter.cut(address, segment);
  return stretches;
}

std::vector<FreePiece> last_users(const trace::AllocationLog& log, const DeviceLog& device,
                                  const BlockTimes& times, std::size_t until,
                                  const std::vector<Stretch>& stretches,
                                  const std::vector<std::uint64_t>& ends) {
  std::vector<FreePiece> pieces;
  Unclaimed unclaimed{stretches, pieces};
  for (std::size_t i = until; i-- > 0 && !unclaimed.empty();) {
    const std::uint32_t index = device.events[i];
    const LogEvent& event = log.events[index];
    const bool is_free =
        event.kind == EventKind::free_completed || event.kind == EventKind::free_requested;
    if (is_free) {
      const std::uint32_t completed = times.completed(event.block);
      // Otherwise it became free at a separate event, or when a part of it was used again.
      const bool by_reuse = event.kind == EventKind::free_requested &&
                            completed != BlockTimes::kNever &&
                            log.events[completed].block != event.block;
      if (completed != index && !by_reuse) continue;
      unclaimed.claim(log.blocks[event.block].address, ends[event.block], event.block, completed);
    } else if (event.kind == EventKind::segment_alloc || event.kind == EventKind::segment_map) {
      if (!trace::has_place(log, event)) continue;
      unclaimed.claim(event.address, event.address + event.bytes, Stretch::kNoBlock, index);
    }
  }
  unclaimed.claim_rest();
  return pieces;
}

}  // namespace millrace
