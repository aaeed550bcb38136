#include "sink/kafka/topic/assembly.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "sink/chain.hpp"

namespace millrace::sink {
TopicAssembly::TopicAssembly(const TopicPosition& start, std::string name, Ends ends)
    : name_(std::move(name)),
      ends_(std::move(ends)),
      whole_(start.whole),
      given_(start.commits),
      holes_(start.holes),
      filled_(start.filled) {
  for (const std::int64_t offset : start.offsets) parts_.push_back({.next = offset});
  for (const std::uint32_t part : start.gaps) {
    if (part < parts_.size()) parts_[part].gap = true;
  }
  for (const auto& [rank, version] : given_) epoch_ = std::max(epoch_, version.epoch);
}

TopicAssembly::Partition& TopicAssembly::partition_of(const TopicMessage& message) {
  const auto number = static_cast<std::size_t>(message.part);
  if (number >= parts_.size()) parts_.resize(number + 1);
  Partition& part = parts_[number];
  // The messages in between were removed: by compaction, or because of their age.
  if (message.offset > part.next) {
    part.gap = true;
    for (auto& [rank, segments] : part.ranks) segments.back().gap = true;
  }
  part.next = message.offset + 1;
  return part;
}

Segment& TopicAssembly::open_segment(Partition& part, std::uint32_t rank) {
  auto& segments = part.ranks[rank];
  if (segments.empty()) {
    segments.push_back(
        {.gap = part.gap, .cut = !whole_ && !given_.contains(rank), .damaged = part.damaged});
  }
  return segments.back();
}

void TopicAssembly::add(const TopicMessage& message) {
  Partition& part = partition_of(message);
  const auto record = reader_.read(message);
  if (!record) return pass_over(part, message.offset);
  switch (record->kind) {
    case RecordKind::schema:
      return take_schema(record->schema);
    case RecordKind::commit:
      return add_commit(part, record->commit, message.offset);
    case RecordKind::position:
      return;  // only writers need it
    case RecordKind::row:
      Segment& segment = open_segment(part, message.rank);
      if (segment.first < 0) segment.first = message.offset;
      segment.rows.add_encoded(reader_.bytes());
  }
}

// A foreign message may have replaced a message of any rank.
void TopicAssembly::pass_over(Partition& part, std::int64_t offset) {
  part.damaged = true;
  for (auto& [rank, segments] : part.ranks) {
    Segment& segment = segments.back();
    segment.damaged = true;
    if (segment.first < 0) segment.first = offset;
  }
}

void TopicAssembly::take_schema(const StreamSchema& schema) {
  SinkState there;
  there.schema = schema_;
  check_schema(schema, there, name_);
  schema_ = schema;
}

void TopicAssembly::add_commit(Partition& part, const StepCommit& commit, std::int64_t offset) {
  drop_ranks(part, commit);
  Segment& segment = open_segment(part, commit.rank);
  if (segment.first < 0) segment.first = offset;
  segment.commit = commit;
  part.ranks[commit.rank].emplace_back();
  if (parts_.size() < commit.parts) parts_.resize(commit.parts);  // invalidates `part`
  if (is_whole(commit)) give_out(commit);
}

// Ranks that no longer exist never complete the batches that they began.
void TopicAssembly::drop_ranks(Partition& part, const StepCommit& commit) {
  if (commit.version.epoch < epoch_) return;
  epoch_ = commit.version.epoch;
  part.ranks.erase(part.ranks.lower_bound(commit.ranks), part.ranks.end());
  given_.erase(given_.lower_bound(commit.ranks), given_.end());
}

bool TopicAssembly::is_whole(const StepCommit& commit) const {
  const auto has_it = [&](const Partition& part) {
    const auto found = part.ranks.find(commit.rank);
    return found != part.ranks.end() &&
           std::ranges::any_of(found->second, [&](const Segment& segment) {
             return segment.commit && segment.commit->version == commit.version;
           });
  };
  return std::ranges::all_of(parts_.begin(), parts_.begin() + commit.parts, has_it);
}

// Drops a repeat of a returned batch. A commit that precedes an older one does not count: the rows
// before it belong to the next one.
std::vector<Segment> TopicAssembly::pop_up_to(Partition& part, const StepCommit& commit) {
  const auto given = given_.find(commit.rank);
  const Version before = given == given_.end() ? Version{} : given->second;
  auto& segments = part.ranks[commit.rank];
  while (segments.front().commit && segments.front().commit->version <= before)
    segments.pop_front();
  if (commit.version <= before) return {};
  const auto last = std::find_if(segments.rbegin(), segments.rend(), [&](const Segment& segment) {
    return segment.commit && segment.commit->version == commit.version;
  });
  std::vector<Segment> popped;
  for (auto left = std::distance(last, segments.rend()); left > 0; --left) {
    Segment segment = std::move(segments.front());
    segments.pop_front();
    if (segment.commit->version > commit.version) {
      prepend(segment, segments.front());
    } else if (segment.commit->version > before) {
      popped.push_back(std::move(segment));
    }
  }
  return popped;
}

/** Returns the commit that this segment continues, as far as it is known. */
Version TopicAssembly::before_of(const Segment& segment) const {
  const auto given = given_.find(segment.commit->rank);
  if (given != given_.end()) return given->second;
  return whole_ && segment.gap ? Version{} : segment.commit->after;
}

Version TopicAssembly::after_of(const std::vector<std::vector<Segment>>& parts) const {
  const auto begins = [](const Segment& segment) { return segment.commit->after == Version{}; };
  bool gap = false;
  for (const auto& segments : parts) {
    if (std::ranges::any_of(segments, begins)) return {};
    gap = gap || std::ranges::any_of(segments, &Segment::gap);
  }
  const StepCommit& first = *parts.front().front().commit;
  const auto given = given_.find(first.rank);
  if (given != given_.end()) return given->second;
  return gap && whole_ ? Version{} : first.after;
}

void TopicAssembly::give_out(const StepCommit& commit) {
  std::vector<std::vector<Segment>> parts;
  for (std::uint32_t i = 0; i < commit.parts; ++i) {
    parts.push_back(pop_up_to(parts_[i], commit));
    if (parts.back().empty()) return;  // a repeat
  }
  const bool cut_short = std::ranges::any_of(parts, [](const std::vector<Segment>& segments) {
    const Segment& first = segments.front();
    return first.cut && different_rows(first.rows) < first.commit->rows;
  });
  if (cut_short || !schema_) return;
  Lacking lacking;
  for (const auto& segments : parts) {
    look_for_lacking(segments, before_of(segments.front()), lacking);
  }
  StepBatch batch = merged(parts, *schema_, lacking);
  count_holes(lacking.holes);

  const std::uint64_t rows = batch.size();
  batch.commit = commit;
  batch.commit.after = after_of(parts);
  batch.commit.rows = rows;
  batch.commit.part = 0;
  batch.commit.parts = 1;
  given_[commit.rank] = commit.version;
  const TopicPosition behind = position();
  batch.commit.missing += holes_ + lacking.lost;
  std::string lost = lacking.lost == 0 ? "" : fmt::format("{}: {}", name_, lacking.first);
  ready_.push_back({std::move(batch), to_text(behind), std::move(lost)});
}

/** Returns the position after the returned batches. */
TopicPosition TopicAssembly::position() {
  const std::vector<std::int64_t> offsets = resume_offsets();
  const auto read = std::span{offsets}.first(std::min(filled_.size(), offsets.size()));
  const bool filled = std::ranges::equal(filled_, read, std::ranges::less_equal{});
  if (filled) holes_ = 0;
  if (holes_ == 0) filled_.clear();
  TopicPosition position{.offsets = offsets, .commits = given_, .whole = whole_};
  for (std::uint32_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].gap) position.gaps.push_back(i);
  }
  position.holes = holes_;
  position.filled = filled_;
  return position;
}

void TopicAssembly::count_holes(std::uint64_t holes) {
  if (holes == 0) return;
  holes_ += holes;
  std::vector<std::int64_t> ends = ends_();
  ends.resize(std::max({ends.size(), filled_.size(), parts_.size()}));
  for (std::size_t i = 0; i < filled_.size(); ++i) ends[i] = std::max(ends[i], filled_[i]);
  filled_ = std::move(ends);
  parts_.resize(filled_.size());
}

std::vector<std::int64_t> TopicAssembly::resume_offsets() const {
  // From the first message of any batch that was not returned.
  std::vector<std::int64_t> offsets;
  for (const Partition& part : parts_) {
    std::int64_t offset = part.next;
    for (const auto& [rank, segments] : part.ranks) {
      for (const Segment& segment : segments) {
        if (segment.first >= 0) offset = std::min(offset, segment.first);
      }
    }
    offsets.push_back(offset);
  }
  return offsets;
}

std::optional<RecordSource::Next> TopicAssembly::take() {
  if (ready_.empty()) return std::nullopt;
  RecordSource::Next next = std::move(ready_.front());
  ready_.pop_front();
  return next;
}

}  // namespace millrace::sink
