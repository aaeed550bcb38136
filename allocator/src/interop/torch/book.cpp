#include "interop/torch/book.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace millrace::torch {
namespace {

using Action = TorchTraceEntry::Action;

const Book::Cause kNoCause;
thread_local const Book::Cause* cause_here = &kNoCause;

std::byte* bytes_at(void* address) { return static_cast<std::byte*>(address); }

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

std::int64_t now_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace

Book::Book(std::size_t max_split)
    : lately_{segments_.end(), segments_.end()}, max_split_(max_split) {
  const bool limited = max_split != std::numeric_limits<std::size_t>::max();
  counted_.max_split_size = limited ? static_cast<std::int64_t>(max_split) : -1;
}

Book::CauseScope::CauseScope(Cause cause)
    : cause_(std::move(cause)), outer_(std::exchange(cause_here, &cause_)) {}
Book::CauseScope::~CauseScope() { cause_here = outer_; }

bool Book::cause_is_small() noexcept { return cause_here->small; }

void Book::set_limit(std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  limit_ = bytes;
}

std::size_t Book::limit() const {
  const std::lock_guard lock{mutex_};
  return limit_;
}

bool Book::claim(std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  if (limit_ != 0 && (claimed_ > limit_ || bytes > limit_ - claimed_)) return false;
  claimed_ += bytes;
  return true;
}

void Book::unclaim(std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  claimed_ -= bytes;
}

void Book::add_segment(void* base, std::size_t bytes, bool mapped, bool small, TorchPoolId pool) {
  const std::lock_guard lock{mutex_};
  add(bytes_at(base), bytes, mapped, small, pool);
}

void Book::remove_segment(void* base, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  remove(bytes_at(base), bytes);
}

void Book::move_segment(void* to, void* from, std::size_t bytes, TorchPoolId pool) {
  const std::lock_guard lock{mutex_};
  remove(bytes_at(from), bytes);
  claimed_ += bytes;
  add(bytes_at(to), bytes, true, false, pool);
}

// Adjacent pages of a range become one segment, because PyTorch shows a range as one.
void Book::add(std::byte* begin, std::size_t bytes, bool mapped, bool small, TorchPoolId pool) {
  const Cause& cause = *cause_here;
  const auto joins = [&](const Segment& other) {
    return mapped && other.mapped && other.pool == pool;
  };
  Segment added{.bytes = bytes,
                .mapped = mapped,
                .small = small,
                .pool = pool,
                .stream = cause.stream,
                .context = cause.context};
  lately_.fill(segments_.end());
  Share change;
  std::byte* first = begin;
  const auto after = segments_.find(begin + bytes);
  if (after != segments_.end() && joins(after->second)) {
    change.add(after->second, -1);
    join(added, after->second, begin + bytes);
    segments_.erase(after);
  }
  const auto before = begin == nullptr ? segments_.end() : segment_at(begin - 1);
  if (before != segments_.end() && joins(before->second)) {
    change.add(before->second, -1);
    first = before->first;
    const Segment right = std::exchange(added, before->second);
    join(added, right, begin);
  }
  const auto segment = segments_.insert_or_assign(first, added).first;
  change.add(segment->second, 1);
  count(segment->second, change);
  ++counted_.device_allocs;
  if (bytes >= max_split_) counted_.oversize_segments.add(1);
  enter({.action = mapped ? Action::segment_map : Action::segment_alloc,
         .address = number(begin),
         .bytes = bytes,
         .stream = cause.stream,
         .pool = pool,
         .context = cause.context});
}

void Book::remove(std::byte* begin, std::size_t bytes) {
  const auto found = segment_at(begin);
  if (found == segments_.end()) return;
  const Segment was = found->second;
  std::byte* const first = found->first;
  std::byte* const end = begin + bytes;
  Share change;
  change.add(was, -1);
  Segment left = was, right = was;
  left.bytes = static_cast<std::size_t>(begin - first);
  right.bytes = was.bytes - left.bytes - bytes;
  const std::size_t gaps = was.gaps - 1 + gaps_beside(found, begin, end);
  if (left.bytes < right.bytes) {
    count_blocks(left, first);
    take_away(right, left, gaps);
  } else {
    count_blocks(right, end);
    take_away(left, right, gaps);
  }
  lately_.fill(segments_.end());
  segments_.erase(found);
  for (const auto& [at, part] : {std::pair{first, &left}, std::pair{end, &right}}) {
    if (part->bytes == 0) continue;
    change.add(*part, 1);
    segments_.insert_or_assign(at, *part);
  }
  count(was, change);
  claimed_ -= bytes;
  ++counted_.device_frees;
  if (bytes >= max_split_) counted_.oversize_segments.add(-1);
  enter({.action = was.mapped ? Action::segment_unmap : Action::segment_free,
         .address = number(begin),
         .bytes = bytes,
         .stream = was.stream,
         .pool = was.pool,
         .context = cause_here->context});
}

std::size_t& Book::live_in(TorchPoolId pool) {
  return pool == TorchPoolId{} ? live_outside_ : live_by_pool_[pool];
}

void Book::add_block(void* address, Live live) {
  const std::lock_guard lock{mutex_};
  std::size_t& live_there = live_in(live.pool);  // before any change, because it may throw
  const LiveBlocks::Block& block = blocks_.add(address, std::move(live));
  count_block(*block.live, 1);
  ++live_there;
  count_in_segment(block, true);
  if (!is_observed()) return;
  enter({.action = Action::alloc,
         .address = number(address),
         .bytes = block.live->requested,
         .stream = block.live->stream,
         .pool = block.live->pool,
         .context = block.live->context});
}

std::optional<Book::Live> Book::remove_block(const void* address, std::shared_ptr<void> context) {
  const std::lock_guard lock{mutex_};
  LiveBlocks::Block* const found = blocks_.find(address);
  if (found == nullptr) return {};
  count_in_segment(*found, false);
  std::optional<Live> live = blocks_.remove(*found);
  count_block(*live, -1);
  if (--live_in(live->pool) == 0) live_by_pool_.erase(live->pool);
  if (!is_observed()) return live;
  TorchTraceEntry entry{.action = Action::free_requested,
                        .address = number(address),
                        .bytes = live->requested,
                        .stream = live->stream,
                        .pool = live->pool,
                        .context = std::move(context)};
  enter(entry);
  entry.action = Action::free_completed;
  enter(std::move(entry));
  return live;
}

std::optional<Book::Live> Book::find(const void* address) const {
  const std::lock_guard lock{mutex_};
  const LiveBlocks::Block* const found = blocks_.find(address);
  return found == nullptr ? std::nullopt : std::optional{*found->live};
}

bool Book::holds(const void* address) const {
  const std::lock_guard lock{mutex_};
  return blocks_.find(address) != nullptr;
}

std::size_t Book::count_live(TorchPoolId pool) const {
  if (pool == TorchPoolId{}) return live_outside_;
  const auto found = live_by_pool_.find(pool);
  return found == live_by_pool_.end() ? 0 : found->second;
}

std::size_t Book::live_blocks(TorchPoolId pool) const {
  const std::lock_guard lock{mutex_};
  return count_live(pool);
}

bool Book::live_blocks_are(TorchPoolId pool, const std::unordered_set<void*>& expected) const {
  const std::lock_guard lock{mutex_};
  if (count_live(pool) != expected.size()) return false;
  return std::ranges::all_of(expected, [&](const void* address) {
    const LiveBlocks::Block* const found = blocks_.find(address);
    return found != nullptr && found->live->pool == pool;
  });
}

std::pair<void*, std::size_t> Book::segment_of(const void* address) const {
  const std::lock_guard lock{mutex_};
  const auto found = const_cast<Book*>(this)->segment_at(static_cast<const std::byte*>(address));
  if (found == segments_.end()) return {nullptr, 0};
  return {found->first, found->second.bytes};
}

void Book::count_out_of_memory(std::size_t bytes, std::size_t device_free, const Live& request) {
  const std::lock_guard lock{mutex_};
  ++counted_.out_of_memory;
  enter({.action = Action::out_of_memory,
         .address = device_free,
         .bytes = bytes,
         .stream = request.stream,
         .pool = request.pool,
         .context = request.context});
}

bool Book::annotate(const void* address, std::shared_ptr<void> context) {
  const std::lock_guard lock{mutex_};
  const LiveBlocks::Block* const found = blocks_.find(address);
  if (found == nullptr) return false;
  enter({.action = Action::annotate,
         .address = number(address),
         .bytes = found->live->requested,
         .stream = found->live->stream,
         .pool = found->live->pool,
         .context = std::move(context)});
  return true;
}

void Book::count_sync() {
  const std::lock_guard lock{mutex_};
  ++counted_.sync_all_streams;
}

Book::Segments::iterator Book::segment_at(const std::byte* address) {
  auto after = segments_.upper_bound(const_cast<std::byte*>(address));
  if (after == segments_.begin()) return segments_.end();
  --after;
  const bool inside = static_cast<std::size_t>(address - after->first) < after->second.bytes;
  return inside ? after : segments_.end();
}

void Book::set_history(const TorchHistory& history, bool clears) {
  const std::lock_guard lock{mutex_};
  history_ = history;
  history_.most_entries = std::max<std::size_t>(1, history.most_entries);
  if (clears || !history.enabled) trace_.clear();
  while (trace_.size() > history_.most_entries) trace_.pop_front();
}

void Book::track(Tracker tracker) {
  const std::lock_guard lock{mutex_};
  trackers_.push_back(std::move(tracker));
}

bool Book::is_observed() const { return history_.enabled || !trackers_.empty(); }

void Book::enter(TorchTraceEntry entry) {
  if (!is_observed()) return;
  entry.time_us = now_us();
  for (const Tracker& tracker : trackers_) tracker(entry);
  const unsigned bit = 1U << static_cast<unsigned>(entry.action);
  if (!history_.enabled || (history_.skipped & bit) != 0) return;
  if (trace_.size() >= history_.most_entries) trace_.pop_front();
  trace_.push_back(std::move(entry));
}

std::vector<TorchTraceEntry> Book::trace() const {
  const std::lock_guard lock{mutex_};
  return {trace_.begin(), trace_.end()};
}

std::vector<TorchSegment> Book::segments(TorchPoolId pool) const {
  const std::lock_guard lock{mutex_};
  std::vector<TorchSegment> all;
  for (const auto& [begin, segment] : segments_) {
    if (pool != TorchPoolId{} && segment.pool != pool) continue;
    TorchSegment out{.address = number(begin),
                     .bytes = segment.bytes,
                     .stream = segment.stream,
                     .small = segment.small,
                     .expandable = segment.mapped,
                     .pool = segment.pool,
                     .context = segment.context};
    const std::byte* at = begin;
    const std::byte* const end = begin + segment.bytes;
    const auto fill_to = [&](const std::byte* to) {
      const auto bytes = static_cast<std::size_t>(to - at);
      if (bytes > 0) out.blocks.push_back({.address = number(at), .bytes = bytes});
    };
    blocks_.visit(begin, end, [&](const LiveBlocks::Block& block) {
      const Live& live = *block.live;
      fill_to(block.begin);
      out.blocks.push_back({number(block.begin), live.bytes, live.requested, true, live.context});
      out.allocated += live.bytes;
      out.requested += live.requested;
      at = block.end;
    });
    fill_to(end);
    all.push_back(std::move(out));
  }
  return all;
}

}  // namespace millrace::torch
