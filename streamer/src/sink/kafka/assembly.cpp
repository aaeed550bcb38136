#include "sink/kafka/assembly.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "sink/chain.hpp"

namespace millrace::sink {
namespace {

constexpr std::uint32_t kMostParts = 100'000;

using Key = std::pair<std::uint32_t, std::int64_t>;  ///< table, row
struct KeyHash {
  std::size_t operator()(const Key& key) const noexcept {
    return static_cast<std::size_t>(key.second) * 0x9E3779B97F4A7C15U ^ key.first * 0x85EBCA6BU;
  }
};

std::uint64_t different_rows(const StepBatch& rows) {
  std::unordered_set<Key, KeyHash> keys;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RowRecord row = rows.row(i);
    keys.insert({row.table, row.row});
  }
  return keys.size();
}

[[noreturn]] void lost(const std::string& name, const std::string& what) {
  throw SinkError{SinkError::Kind::lost, fmt::format("{}: {}", name, what)};
}

}  // namespace

TopicAssembly::TopicAssembly(const TopicPosition& start, std::string name, Ends ends)
    : name_(std::move(name)),
      ends_(std::move(ends)),
      whole_(start.whole),
      given_(start.marks),
      holes_(start.holes),
      filled_(start.filled) {
  for (const std::int64_t offset : start.offsets) parts_.push_back({.next = offset});
  for (const std::uint32_t part : start.gaps) {
    if (part < parts_.size()) parts_[part].gap = true;
  }
  for (const auto& [rank, version] : given_) epoch_ = std::max(epoch_, version.epoch);
}

TopicAssembly::Part& TopicAssembly::part_of(const TopicMessage& message) {
  const auto number = static_cast<std::size_t>(message.part);
  if (number >= parts_.size()) parts_.resize(number + 1);
  Part& part = parts_[number];
  if (message.offset > part.next) {
    part.gap = true;
    for (auto& [rank, segments] : part.ranks) segments.back().gap = true;
  }
  part.next = message.offset + 1;
  return part;
}

TopicAssembly::Segment& TopicAssembly::open_segment(Part& part, std::uint32_t rank) {
  auto& segments = part.ranks[rank];
  if (segments.empty()) {
    segments.push_back({.gap = part.gap, .cut = !whole_ && !given_.contains(rank)});
  }
  return segments.back();
}

void TopicAssembly::add(const TopicMessage& message) {
  Part& part = part_of(message);
  record_.assign(message.record.begin(), message.record.end());
  const Record record = parse_record(record_);
  switch (record.kind) {
    case RecordKind::schema:
      return take_schema(record.schema);
    case RecordKind::mark:
      return add_mark(part, record.mark, message);
    case RecordKind::position:
      return;  // of whoever wrote the topic: nothing to those who read it
    case RecordKind::row:
      Segment& segment = open_segment(part, message.rank);
      if (segment.first < 0) segment.first = message.offset;
      segment.rows.add_encoded(record_);
  }
}

void TopicAssembly::take_schema(const StreamSchema& schema) {
  SinkState there;
  there.schema = schema_;
  check_schema(schema, there, name_);
  schema_ = schema;
}

void TopicAssembly::add_mark(Part& part, const StepMark& mark, const TopicMessage& message) {
  if (mark.rank != message.rank || mark.part != static_cast<std::uint32_t>(message.part) ||
      mark.parts > kMostParts) {
    throw RecordError{fmt::format("a mark of rank {} and part {} of {} from rank {} in part {}",
                                  mark.rank, mark.part, mark.parts, message.rank, message.part)};
  }
  drop_ranks(part, mark);
  Segment& segment = open_segment(part, mark.rank);
  if (segment.first < 0) segment.first = message.offset;
  segment.mark = mark;
  part.ranks[mark.rank].emplace_back();
  if (parts_.size() < mark.parts) parts_.resize(mark.parts);  // `part` is no more
  if (is_whole(mark)) give_out(mark);
}

// Of ranks that are there no more nothing comes that would make a batch of what they left.
void TopicAssembly::drop_ranks(Part& part, const StepMark& mark) {
  if (mark.version.epoch < epoch_) return;
  epoch_ = mark.version.epoch;
  part.ranks.erase(part.ranks.lower_bound(mark.ranks), part.ranks.end());
  given_.erase(given_.lower_bound(mark.ranks), given_.end());
}

bool TopicAssembly::is_whole(const StepMark& mark) const {
  const auto has_it = [&](const Part& part) {
    const auto found = part.ranks.find(mark.rank);
    return found != part.ranks.end() &&
           std::ranges::any_of(found->second, [&](const Segment& segment) {
             return segment.mark && segment.mark->version == mark.version;
           });
  };
  return std::ranges::all_of(parts_.begin(), parts_.begin() + mark.parts, has_it);
}

// What repeats a batch that was given out is left out.
std::vector<TopicAssembly::Segment> TopicAssembly::pop_up_to(Part& part, const StepMark& mark) {
  std::vector<Segment> popped;
  const auto given = given_.find(mark.rank);
  auto& segments = part.ranks[mark.rank];
  while (!segments.empty() && segments.front().mark &&
         segments.front().mark->version <= mark.version) {
    if (given == given_.end() || segments.front().mark->version > given->second) {
      popped.push_back(std::move(segments.front()));
    }
    segments.pop_front();
  }
  return popped;
}

std::uint64_t TopicAssembly::holes_in(const std::vector<Segment>& segments) const {
  std::uint64_t holes = 0;
  const std::uint32_t rank = segments.front().mark->rank;
  const auto given = given_.find(rank);
  Version before = given != given_.end()            ? given->second
                   : whole_ && segments.front().gap ? Version{}
                                                    : segments.front().mark->after;
  for (const Segment& segment : segments) {
    const StepMark& mark = *segment.mark;
    const bool marks_gone = mark.after > before;
    const bool exact = !segment.gap && segment.rows.size() == mark.rows;
    const std::uint64_t there = exact ? mark.rows : different_rows(segment.rows);
    if (!segment.gap && marks_gone) {
      lost(name_, fmt::format("of rank {} what goes after {} follows {}", rank,
                              to_string(mark.after), to_string(before)));
    }
    if (!segment.gap && there < mark.rows) {
      lost(name_,
           fmt::format("of {} rows of {} {} are there", mark.rows, to_string(mark.version), there));
    }
    if (there < mark.rows) {
      holes += mark.rows - there;
    } else if (marks_gone) {
      ++holes;  // as many as those marks speak of, which nobody knows
    }
    before = mark.version;
  }
  return holes;
}

Version TopicAssembly::after_of(const std::vector<std::vector<Segment>>& parts) const {
  const auto begins = [](const Segment& segment) { return segment.mark->after == Version{}; };
  bool gap = false;
  for (const auto& segments : parts) {
    if (std::ranges::any_of(segments, begins)) return {};
    gap = gap || std::ranges::any_of(segments, &Segment::gap);
  }
  const StepMark& first = *parts.front().front().mark;
  const auto given = given_.find(first.rank);
  if (given != given_.end()) return given->second;
  return gap && whole_ ? Version{} : first.after;
}

StepBatch TopicAssembly::merged(const std::vector<std::vector<Segment>>& parts) const {
  struct Newest {
    Version version;
    std::span<const std::byte> record;
  };
  std::unordered_map<Key, Newest, KeyHash> rows;
  for (const auto& segments : parts) {
    for (const Segment& segment : segments) {
      for (std::size_t i = 0; i < segment.rows.size(); ++i) {
        const RowRecord row = segment.rows.row(i);
        check_row(row, *schema_);
        Newest& kept = rows[{row.table, row.row}];
        if (kept.record.empty() || kept.version < row.version) {
          kept = {row.version, segment.rows.record(i)};
        }
      }
    }
  }
  StepBatch batch;
  for (const auto& [key, row] : rows) batch.add_encoded(row.record);
  return batch;
}

void TopicAssembly::give_out(const StepMark& mark) {
  std::vector<std::vector<Segment>> parts;
  for (std::uint32_t i = 0; i < mark.parts; ++i) {
    parts.push_back(pop_up_to(parts_[i], mark));
    if (parts.back().empty()) return;  // a repeat
  }
  const bool cut_short = std::ranges::any_of(parts, [](const std::vector<Segment>& segments) {
    const Segment& first = segments.front();
    return first.cut && different_rows(first.rows) < first.mark->rows;
  });
  if (cut_short || !schema_) return;
  for (const auto& segments : parts) count_holes(holes_in(segments));

  StepBatch batch = merged(parts);
  const std::uint64_t rows = batch.size();
  batch.mark = mark;
  batch.mark.after = after_of(parts);
  batch.mark.rows = rows;
  batch.mark.part = 0;
  batch.mark.parts = 1;
  given_[mark.rank] = mark.version;
  const std::vector<std::int64_t> offsets = resume_offsets();
  const bool filled = std::ranges::equal(
      filled_, offsets | std::views::take(static_cast<std::ptrdiff_t>(filled_.size())),
      std::ranges::less_equal{});
  if (filled) holes_ = 0;
  if (holes_ == 0) filled_.clear();
  batch.mark.missing += holes_;
  TopicPosition position{.offsets = offsets, .marks = given_, .whole = whole_};
  for (std::uint32_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].gap) position.gaps.push_back(i);
  }
  position.holes = holes_;
  position.filled = filled_;
  ready_.push_back({std::move(batch), to_text(position)});
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
  std::vector<std::int64_t> offsets;
  for (const Part& part : parts_) {
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
