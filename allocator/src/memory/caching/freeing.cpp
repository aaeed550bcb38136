#include "memory/caching/freeing.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "memory/caching/try_mark.hpp"

namespace millrace {

namespace {

// Calls `report`, then `rest`, even if an observer throws: the block is not live any more.
template <typename Report, typename Rest>
void report_and(const Report& report, const Rest& rest) {
  try {
    report();
  } catch (...) {
    rest();
    throw;
  }
  rest();
}

}  // namespace

bool Freeing::free_plainly(Block* block, StreamRef stream) {
  if (!block->live.uses.by_owner_only() || stream.id() != block->lane) return false;
  if (!stock_.follows_order) return false;  // host memory: its own stream may have to wait, too
  const Marker next = stock_.open_streams.next(stream.id());
  if (next == 0) return false;
  stock_.heap.live().erase(block);
  const WhileLive was = upkeep_.count_in(*block, false);
  const Point point{stream.id(), next};
  block->points = PointSet{point};
  report_and(
      [&] {
        reports_.freed(was, *block, {&point, 1});
      },
      [&] { free_blocks_.put(block, nullptr); });
  return true;
}

void Freeing::free_on(Block* block, StreamRef stream, bool given, Lock& lock) {
  if (free_plainly(block, stream))
    return;  // false for a block that graphs use: it has a use record
  PointSet points;
  const bool kept = live_again_on_error({&block, 1}, [&] {
    StreamUses used;
    points = std::move(spare_);
    collect_points(*block, stream, given, used, points);
    if (!used.empty()) mark(used, lock);
    return kept_for_graphs(block, points);
  });
  if (!kept) swap_back(block, points);
  spare_ = std::move(points);
}

bool Freeing::kept_for_graphs(Block* block, PointSet& points) {
  if (!graphs_.any() || !graphs_.keep(block->address, points)) return false;
  block->state = BlockState::live;
  return true;
}

// Joins the next markers of many streams, except `but`, in O(n log n).
void Freeing::join_many(const StreamUses& uses, StreamId but, PointSet& points) const {
  const Ledger& ledger = stock_.device.ledger();
  std::vector<Point> many;
  many.reserve(uses.size());
  for (const StreamRef use : uses) {
    if (use.id() != but) many.push_back({use.id(), ledger.next(use.id())});
  }
  points.join_all(many);
}

PointSet Freeing::points_of_free(const Block& block, StreamRef stream, bool given,
                                 StreamUses& used) const {
  PointSet points;
  collect_points(block, stream, given, used, points);
  return points;
}

void Freeing::collect_points(const Block& freed, StreamRef stream, bool given, StreamUses& used,
                             PointSet& points) const {
  const Block* const block = &freed;
  const Marker next = stock_.open_streams.next(stream.id());
  points.set(stock_.point_of_free(stream.id(), next));
  const UseRecord* const use_record = block->live.uses.record();
  const StreamId user = use_record == nullptr ? block->live.owner.id() : use_record->user;
  if (use_record != nullptr) {
    const bool are_many = use_record->uses.size() > StreamUses::kFew;
    if (are_many) join_many(use_record->uses, stream.id(), points);
    for (const StreamRef use : use_record->uses) {
      if (use.id() == stream.id()) continue;
      const Marker next_of_use = stock_.open_streams.next(use.id());
      if (!are_many) points.join(stock_.point_of_free(use.id(), next_of_use));
      if (next_of_use != 0) used.add(use);  // a closed stream has left its last marker
    }
  }
  // A free that only a poll completes needs a marker to query, also on the stream of the free.
  const bool polled = stock_.polls_frees && stream.id() != block->lane;
  if (polled && next != 0 && (given || stock_.device.attached(stream.id()))) {
    used.add(stream);
  }
  // The first user is ordered after the block's earlier uses, so a point of that user covers them.
  // Without such a point, the block keeps the earlier points that `stream` is not ordered after.
  const bool behind_user =
      user == stream.id() ||
      std::ranges::any_of(points, [&](const Point point) { return point.stream == user; });
  if (!behind_user) {
    for (const Point point : block->points) {
      if (!stock_.device.ledger().ordered(point, stream.id())) points.join(point);
    }
  }
}

void Freeing::mark(const StreamUses& streams, Lock& lock) {
  const Unlocked unlocked{lock};
  for (const StreamRef stream : streams) try_mark(stock_.device, stream);
}

void Freeing::swap_back(Block* block, PointSet& points) {
  const WhileLive was = upkeep_.count_in(*block, true);
  block->points.swap(points);
  report_and(
      [&] {
        reports_.freed(was, *block, {block->points.begin(), block->points.end()});
      },
      [&] { keep(block); });
}

// Puts a block that is no longer live where it waits for its points, or for a request.
void Freeing::keep(Block* block) {
  if (stock_.has_fronts && quick_uses_.wait(block)) return;
  stock_.heap.live().erase(block);
  const auto used_elsewhere = [block] {
    return std::ranges::any_of(block->points,
                               [&](const Point point) { return point.stream != block->lane; });
  };
  if (stock_.polls_frees && used_elsewhere()) {
    completions_.hold_back(block);
  } else {
    free_blocks_.put(block);
  }
}

}  // namespace millrace
