#include "explain/page_order.hpp"

#include <algorithm>

namespace millrace::cli {

using trace::LoggedOrder;
using trace::OrderKind;

namespace {

// 200,000 waits need some MiB in the page. Frontiers with 4 million entries need 256 MiB.
constexpr std::size_t kMostWaits = 200'000, kMostEntries = std::size_t{1} << 22;

}  // namespace

PageOrder::PageOrder(const trace::AllocationLog& log)
    : log_(log),
      marks_(log.streams.size()),
      frontier_(log.streams.size()),
      done_(log.streams.size()),
      complete_(log.blocks.size()),
      freed_at_(log.blocks.size()) {}

void PageOrder::advance(std::size_t event) {
  for (; next_ < log_.order.size() && log_.order[next_].before <= event; ++next_) {
    ++position_;
    take(log_.order[next_], next_);
  }
  ++position_;
}

void PageOrder::take(const LoggedOrder& step, std::size_t index) {
  switch (step.kind) {
    case OrderKind::marked:
      marks_[step.stream][step.marker] = {position_, index, frontier_[step.stream]};
      return;
    case OrderKind::waited:
      return wait(step, index);
    case OrderKind::used:
      if (step.stream != log_.blocks[step.block].stream) uses_[step.block].insert(step.stream);
      return;
    case OrderKind::passed: {
      const auto mark = marks_[step.stream].lower_bound(step.marker);
      if (mark == marks_[step.stream].end()) return;
      done_[step.stream] = std::max(done_[step.stream], mark->second.position);
      return;
    }
    case OrderKind::passed_stream:
      done_[step.stream] = position_;
      return;
    case OrderKind::passed_device:
      for (std::size_t i = 0; i < done_.size(); ++i) {
        if (log_.streams[i].device == step.device) done_[i] = position_;
      }
      return;
    case OrderKind::closed:
    case OrderKind::not_passed:
    case OrderKind::stream_not_passed:
    case OrderKind::transferred:
    case OrderKind::pool_keeps:
    case OrderKind::pool_trimmed:
      return;
  }
}

// The waiting stream is also ordered after everything that the other stream was ordered after when
// it made the mark.
void PageOrder::wait(const LoggedOrder& step, std::size_t index) {
  const auto found = marks_[step.other].lower_bound(step.marker);
  if (found == marks_[step.other].end()) return;
  const Mark& mark = found->second;
  is_cut_ = is_cut_ || waits_.size() == kMostWaits || entries_ >= kMostEntries;
  const std::uint32_t number =
      waits_.size() < kMostWaits ? static_cast<std::uint32_t>(waits_.size()) : kUnknown;
  if (waits_.size() < kMostWaits) waits_.push_back({mark.step, index});
  if (entries_ >= kMostEntries) return;
  Frontier& after = own_frontier(step.stream);
  const auto add = [&](std::uint32_t stream, std::uint64_t position) {
    if (position <= done_[stream]) return;  // complete work precedes everything
    After& known = after[stream];
    if (position > known.position) known = {position, number};
  };
  const std::shared_ptr<const Frontier> others = mark.frontier;
  add(step.other, mark.position);
  if (others) {
    for (const auto& [stream, theirs] : *others) add(stream, theirs.position);
  }
}

// If a mark shares the frontier, the stream gets a copy without the entries that are complete by
// now.
PageOrder::Frontier& PageOrder::own_frontier(std::uint32_t stream) {
  std::shared_ptr<Frontier>& frontier = frontier_[stream];
  if (!frontier) {
    frontier = std::make_shared<Frontier>();
  } else if (frontier.use_count() > 1) {
    auto copy = std::make_shared<Frontier>();
    for (const auto& [other, known] : *frontier) {
      if (known.position > done_[other]) copy->emplace_hint(copy->end(), other, known);
    }
    entries_ += copy->size();
    frontier = std::move(copy);
  }
  return *frontier;
}

void PageOrder::freed(const trace::LogEvent& event) {
  const trace::LoggedStream& by = log_.streams[event.stream];
  freed_at_[event.block] = position_;
  if (by.for_all) {  // the call implies that all work is complete
    complete_[event.block] = true;
  } else if (event.stream != log_.blocks[event.block].stream) {
    uses_[event.block].insert(event.stream);
  }
}

PageOrder::Reuse PageOrder::reuse(std::uint32_t block, std::uint32_t stream) const {
  bool same = true, complete = true, ordered = true;
  std::uint32_t wait = kUnknown;
  const auto look = [&](std::uint32_t user) {
    if (user == stream) return;
    same = false;
    if (done_[user] >= freed_at_[block]) return;
    complete = false;
    const std::shared_ptr<Frontier>& frontier = frontier_[stream];
    const bool is_after =
        frontier && frontier->contains(user) && frontier->at(user).position >= freed_at_[block];
    ordered = ordered && is_after;
    if (!is_after || frontier->at(user).wait == kUnknown) return;
    const std::uint32_t by = frontier->at(user).wait;
    wait = wait == kUnknown ? by : std::max(wait, by);
  };
  look(log_.blocks[block].stream);
  const auto others = uses_.find(block);
  if (others != uses_.end()) std::ranges::for_each(others->second, look);
  if (same) return {PageReuse::same_stream};
  if (complete || complete_[block]) return {PageReuse::completed};
  return ordered ? Reuse{PageReuse::ordered, wait} : Reuse{};
}

}  // namespace millrace::cli
