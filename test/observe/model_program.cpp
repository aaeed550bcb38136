#include "test/observe/model_program.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <ostream>

namespace millrace::test {

namespace {

constexpr auto kNotYet = std::numeric_limits<std::size_t>::max();

}  // namespace

std::ostream& operator<<(std::ostream& out, const ModelStep& step) {
  static constexpr const char* names[] = {"allocate", "first_user", "free",     "free_used",
                                          "mark",     "wait",       "complete", "trim"};
  return out << names[step.kind] << '(' << int{step.stream} << ", " << int{step.other} << ", "
             << step.size << ')';
}

rc::Gen<std::vector<ModelStep>> model_program() {
  using Kind = ModelStep::Kind;
  const auto kind = rc::gen::weightedElement<Kind>({{12, Kind::allocate},
                                                    {2, Kind::first_user},
                                                    {8, Kind::free},
                                                    {3, Kind::free_used},
                                                    {4, Kind::mark},
                                                    {4, Kind::wait},
                                                    {1, Kind::complete},
                                                    {1, Kind::trim}});
  return rc::gen::container<std::vector<ModelStep>>(rc::gen::construct<ModelStep>(
      kind, rc::gen::arbitrary<std::uint8_t>(), rc::gen::arbitrary<std::uint8_t>(),
      rc::gen::inRange<std::uint16_t>(1, 2000)));
}

ModelRun::ModelRun(const std::vector<ModelStep>& program, Options options) : options_(options) {
  for (std::uint32_t i = 0; i < options.streams; ++i) {
    streams_.emplace_back().id = {i, 1};
  }
  for (const ModelStep& step : program) run(step);
}

void ModelRun::run(const ModelStep& step) {
  ++now_;
  Stream& stream = streams_[step.stream % streams_.size()];
  Stream& other = streams_[step.other % streams_.size()];
  switch (step.kind) {
    case ModelStep::allocate:
      return allocate(stream, stream, step.size);
    case ModelStep::first_user:
      return allocate(stream, other, step.size);
    case ModelStep::free:
      return free(step.size, {});
    case ModelStep::free_used:
      return free(step.size, {&stream, &other});
    case ModelStep::mark:
      stream.snapshots.push_back(stream.frontier);
      stream.snapshots.back().advance({stream.id, stream.next++});
      return;
    case ModelStep::wait:
      if (!other.snapshots.empty()) stream.frontier.join(other.snapshots.back());
      return;
    case ModelStep::complete:
      if (stream.snapshots.empty()) return;
      completed_.join(stream.snapshots[step.size % stream.snapshots.size()]);
      for (Stream& each : streams_) each.frontier.drop_completed(completed_);
      return;
    case ModelStep::trim:
      return trim();
  }
}

void ModelRun::allocate(Stream& owner, Stream& user, std::size_t requested) {
  const std::size_t bytes = (requested + 63) / 64 * 64;
  Block block{.segment = 0,
              .offset = 0,
              .bytes = bytes,
              .user = user.id,
              .allocated = now_,
              .freed = kNotYet,
              .points = {},
              .user_frontier = user.frontier,
              .completed = completed_};
  if (!place(block)) {
    block.segment = grow(bytes);
    block.offset = 0;
  }
  live_.push_back(blocks_.size());
  blocks_.push_back(block);
  const auto tag = bytes % 128 == 0 ? "even" : "odd";
  trace.allocated({blocks_.size(), reinterpret_cast<void*>(address(block)), requested, bytes,
                   owner.id, user.id, tag, user.frontier, completed_});
  if (owner.id != user.id) trace.use_recorded(blocks_.size(), user.id);
}

// Adds a segment of at least twice the request at the lowest free addresses.
std::size_t ModelRun::grow(std::size_t bytes) {
  Segment segment{.base = 1 << 20, .bytes = (bytes + 1023) / 1024 * 2048, .held = true};
  std::vector<Segment> held;
  std::ranges::copy_if(segments_, std::back_inserter(held), &Segment::held);
  std::ranges::sort(held, {}, &Segment::base);
  for (const Segment& other : held) {
    if (other.base >= segment.base + segment.bytes) break;
    segment.base = other.base + other.bytes;
  }
  segments_.push_back(segment);
  trace.segment_acquired(reinterpret_cast<void*>(segment.base), segment.bytes);
  return segments_.size() - 1;
}

void ModelRun::free(std::size_t nth_live, std::vector<Stream*> used) {
  if (live_.empty()) return;
  nth_live %= live_.size();
  const std::size_t index = live_[nth_live];
  live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(nth_live));
  Block& block = blocks_[index];
  Frontier points;
  points.advance({block.user, streams_[block.user.slot].next});
  for (const Stream* stream : used) points.advance({stream->id, stream->next});
  block.points.assign(points.begin(), points.end());
  block.freed = now_;
  trace.freed({index + 1, reinterpret_cast<void*>(address(block)), block.bytes, block.points});
}

void ModelRun::trim() {
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const bool idle = std::ranges::all_of(blocks_, [&](const Block& block) {
      return block.segment != i ||
             (block.freed != kNotYet && std::ranges::all_of(block.points, [&](Point point) {
                return completed_.covers(point);
              }));
    });
    if (!segments_[i].held || !idle) continue;
    segments_[i].held = false;
    trace.segment_released(reinterpret_cast<void*>(segments_[i].base), segments_[i].bytes);
  }
}

bool ModelRun::may_have(StreamId user, const Frontier& frontier, const Block& old) const {
  if (old.freed == kNotYet) return false;
  if (!options_.obeys) return true;
  return std::ranges::all_of(old.points, [&](Point point) {
    return point.stream == user || frontier.covers(point) || completed_.covers(point);
  });
}

bool ModelRun::fits(const Block& candidate) const {
  return std::ranges::all_of(blocks_, [&](const Block& old) {
    return old.segment != candidate.segment || old.offset >= candidate.offset + candidate.bytes ||
           candidate.offset >= old.offset + old.bytes ||
           may_have(candidate.user, candidate.user_frontier, old);
  });
}

// First fit over all segments. The candidates are offset 0 and the ends of all earlier blocks.
bool ModelRun::place(Block& block) {
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    if (!segments_[i].held) continue;
    block.segment = i;
    std::vector<std::size_t> offsets{0};
    for (const Block& old : blocks_) {
      if (old.segment == i) offsets.push_back(old.offset + old.bytes);
    }
    std::ranges::sort(offsets);
    for (const std::size_t offset : offsets) {
      block.offset = offset;
      if (offset + block.bytes <= segments_[i].bytes && fits(block)) return true;
    }
  }
  return false;
}

bool ModelRun::conflict(std::size_t a, std::size_t b) const {
  if (a == b) return false;
  const Block& earlier = blocks_[std::min(a, b)];
  const Block& later = blocks_[std::max(a, b)];
  if (earlier.freed == kNotYet || earlier.freed > later.allocated) return true;
  return std::ranges::any_of(earlier.points, [&](Point point) {
    return point.stream != later.user && !later.user_frontier.covers(point) &&
           !later.completed.covers(point);
  });
}

bool ModelRun::share_memory(std::size_t a, std::size_t b) const {
  return address(blocks_[a]) < address(blocks_[b]) + blocks_[b].bytes &&
         address(blocks_[b]) < address(blocks_[a]) + blocks_[a].bytes;
}

std::uintptr_t ModelRun::address(const Block& block) const {
  return segments_[block.segment].base + block.offset;
}

}  // namespace millrace::test
