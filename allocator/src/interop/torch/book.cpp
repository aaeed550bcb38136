#include "interop/torch/book.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace millrace::torch {
namespace {

using Action = TorchTraceEntry::Action;

thread_local Book::Cause cause_here;

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

std::int64_t now_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace

Book::Book(std::size_t max_split) : max_split_(max_split) {
  const bool limited = max_split != std::numeric_limits<std::size_t>::max();
  counted_.max_split_size = limited ? static_cast<std::int64_t>(max_split) : -1;
}

Book::CauseScope::CauseScope(Cause cause) : outer_(std::exchange(cause_here, std::move(cause))) {}
Book::CauseScope::~CauseScope() { cause_here = std::move(outer_); }

bool Book::cause_is_small() noexcept { return cause_here.small; }

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
  add(number(base), bytes, mapped, small, pool);
}

void Book::remove_segment(void* base, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  remove(number(base), bytes);
}

void Book::move_segment(void* to, void* from, std::size_t bytes, TorchPoolId pool) {
  const std::lock_guard lock{mutex_};
  remove(number(from), bytes);
  claimed_ += bytes;
  add(number(to), bytes, true, false, pool);
}

// A range's pages become one segment with those beside them: PyTorch shows a range as one, too.
void Book::add(std::uintptr_t address, std::size_t bytes, bool mapped, bool small,
               TorchPoolId pool) {
  const Cause& cause = cause_here;
  const auto joins = [&](const Segment& other) {
    return mapped && other.mapped && other.pool == pool;
  };
  Segment added{.bytes = bytes,
                .mapped = mapped,
                .small = small,
                .pool = pool,
                .stream = cause.stream,
                .context = cause.context};
  Share change;
  std::uintptr_t begin = address;
  const auto after = segments_.find(address + bytes);
  if (after != segments_.end() && joins(after->second)) {
    change.add(after->second, -1);
    added.bytes += after->second.bytes;
    segments_.erase(after);
  }
  const auto before = segment_at(address == 0 ? 0 : address - 1);
  if (before != segments_.end() && joins(before->second)) {
    change.add(before->second, -1);
    begin = before->first;
    const std::size_t both = before->second.bytes + added.bytes;
    added = before->second;
    added.bytes = both;
  }
  const auto segment = segments_.insert_or_assign(begin, added).first;
  recount(segment);
  change.add(segment->second, 1);
  count(segment->second, change);
  ++counted_.device_allocs;
  if (bytes >= max_split_) counted_.oversize_segments.add(1);
  enter({.action = mapped ? Action::segment_map : Action::segment_alloc,
         .address = address,
         .bytes = bytes,
         .stream = cause.stream,
         .pool = pool,
         .context = cause.context});
}

void Book::remove(std::uintptr_t address, std::size_t bytes) {
  const auto found = segment_at(address);
  if (found == segments_.end()) return;
  const Segment was = found->second;
  const std::uintptr_t begin = found->first;
  Share change;
  change.add(was, -1);
  segments_.erase(found);
  const auto keep = [&](std::uintptr_t from, std::uintptr_t to) {
    if (from >= to) return;
    Segment part = was;
    part.bytes = to - from;
    const auto segment = segments_.insert_or_assign(from, part).first;
    recount(segment);
    change.add(segment->second, 1);
  };
  keep(begin, address);
  keep(address + bytes, begin + was.bytes);
  count(was, change);
  claimed_ -= bytes;
  ++counted_.device_frees;
  if (bytes >= max_split_) counted_.oversize_segments.add(-1);
  enter({.action = was.mapped ? Action::segment_unmap : Action::segment_free,
         .address = address,
         .bytes = bytes,
         .stream = was.stream,
         .pool = was.pool,
         .context = cause_here.context});
}

void Book::add_block(void* address, Live live) {
  const std::uintptr_t begin = number(address);
  const std::lock_guard lock{mutex_};
  count_block(live, 1);
  ++live_by_pool_[live.pool];
  if (is_told()) {
    enter({.action = Action::alloc,
           .address = begin,
           .bytes = live.requested,
           .stream = live.stream,
           .pool = live.pool,
           .context = live.context});
  }
  count_in_segment(blocks_.insert_or_assign(begin, std::move(live)).first, true);
}

std::optional<Book::Live> Book::remove_block(const void* address, std::shared_ptr<void> context) {
  const std::lock_guard lock{mutex_};
  const auto found = blocks_.find(number(address));
  if (found == blocks_.end()) return {};
  count_in_segment(found, false);
  Live live = std::move(found->second);
  const std::uintptr_t begin = found->first;
  blocks_.erase(found);
  count_block(live, -1);
  if (const auto left = live_by_pool_.find(live.pool); --left->second == 0) {
    live_by_pool_.erase(left);
  }
  if (!is_told()) return live;
  TorchTraceEntry entry{.action = Action::free_requested,
                        .address = begin,
                        .bytes = live.requested,
                        .stream = live.stream,
                        .pool = live.pool,
                        .context = std::move(context)};
  enter(entry);
  entry.action = Action::free_completed;
  enter(std::move(entry));
  return live;
}

std::optional<Book::Live> Book::find(const void* address) const {
  const std::lock_guard lock{mutex_};
  const auto found = blocks_.find(number(address));
  return found == blocks_.end() ? std::nullopt : std::optional{found->second};
}

bool Book::holds(const void* address) const {
  const std::lock_guard lock{mutex_};
  return blocks_.contains(number(address));
}

std::size_t Book::live_blocks(TorchPoolId pool) const {
  const std::lock_guard lock{mutex_};
  const auto found = live_by_pool_.find(pool);
  return found == live_by_pool_.end() ? 0 : found->second;
}

bool Book::live_blocks_are(TorchPoolId pool, const std::unordered_set<void*>& expected) const {
  const std::lock_guard lock{mutex_};
  const auto live = live_by_pool_.find(pool);
  if ((live == live_by_pool_.end() ? 0 : live->second) != expected.size()) return false;
  return std::ranges::all_of(expected, [&](const void* address) {
    const auto found = blocks_.find(number(address));
    return found != blocks_.end() && found->second.pool == pool;
  });
}

std::pair<void*, std::size_t> Book::segment_of(const void* address) const {
  const std::lock_guard lock{mutex_};
  const auto found = const_cast<Book*>(this)->segment_at(number(address));
  if (found == segments_.end()) return {nullptr, 0};
  return {reinterpret_cast<void*>(found->first), found->second.bytes};  // NOLINT: it is an address
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
  const auto found = blocks_.find(number(address));
  if (found == blocks_.end()) return false;
  enter({.action = Action::annotate,
         .address = found->first,
         .bytes = found->second.requested,
         .stream = found->second.stream,
         .pool = found->second.pool,
         .context = std::move(context)});
  return true;
}

void Book::count_sync() {
  const std::lock_guard lock{mutex_};
  ++counted_.sync_all_streams;
}

Book::Segments::iterator Book::segment_at(std::uintptr_t address) {
  auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) return segments_.end();
  --after;
  return address - after->first < after->second.bytes ? after : segments_.end();
}

void Book::set_history(const TorchHistory& history, bool clears) {
  const std::lock_guard lock{mutex_};
  history_ = history;
  history_.most_entries = std::max<std::size_t>(1, history.most_entries);
  if (clears || !history.enabled) trace_.clear();
  while (trace_.size() > history_.most_entries) trace_.pop_front();
}

bool Book::history_enabled() const {
  const std::lock_guard lock{mutex_};
  return history_.enabled;
}

void Book::track(Tracker tracker) {
  const std::lock_guard lock{mutex_};
  trackers_.push_back(std::move(tracker));
}

bool Book::is_told() const { return history_.enabled || !trackers_.empty(); }

void Book::enter(TorchTraceEntry entry) {
  if (!is_told()) return;
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
    TorchSegment out{.address = begin,
                     .bytes = segment.bytes,
                     .stream = segment.stream,
                     .small = segment.small,
                     .expandable = segment.mapped,
                     .pool = segment.pool,
                     .context = segment.context};
    std::uintptr_t at = begin;
    const std::uintptr_t end = begin + segment.bytes;
    const auto fill_to = [&](std::uintptr_t to) {
      if (at < to) out.blocks.push_back({.address = at, .bytes = to - at});
    };
    for (auto block = blocks_.lower_bound(begin); block != blocks_.end() && block->first < end;
         ++block) {
      const Live& live = block->second;
      fill_to(block->first);
      out.blocks.push_back({block->first, live.bytes, live.requested, true, live.context});
      out.allocated += live.bytes;
      out.requested += live.requested;
      at = block->first + live.bytes;
    }
    fill_to(end);
    all.push_back(std::move(out));
  }
  return all;
}

}  // namespace millrace::torch
