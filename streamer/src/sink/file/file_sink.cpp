#include "sink/file/file_sink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sink/chain.hpp"
#include "sink/file/address.hpp"
#include "sink/file/folder.hpp"
#include "sink/file/newest.hpp"
#include "sink/kinds.hpp"

namespace millrace::sink {

const StreamSchema* FileSink::schema() {
  if (!schema_) schema_ = read_schema(options_.folder);
  return schema_ ? &*schema_ : nullptr;
}

SinkState FileSink::state() {
  const std::lock_guard lock{mutex_};
  SinkState state;
  if (const StreamSchema* const there = schema()) state.schema = *there;
  see_others(state, segments_in(options_.folder));
  for (auto& [rank, writing] : ranks_) {
    // Lock order: the sink's mutex, then a rank's. `write` locks only the rank's while it writes,
    // so ranks do not wait for each other's disk.
    const std::lock_guard of_rank{writing.mutex};
    if (writing.writer && writing.writer->commit()) state.commits[rank] = *writing.writer->commit();
  }
  state.position = position_.text;
  return state;
}

/**
 * Adds commits and the position from the folder. The writers have those of the ranks that this sink
 * writes.
 */
void FileSink::see_others(SinkState& state, const Segments& segments) {
  for (const auto& [rank, names] : segments) {
    const auto mine = ranks_.find(rank);
    if (mine != ranks_.end()) {
      const std::lock_guard of_rank{mine->second.mutex};
      if (const auto& writer = mine->second.writer) {
        if (writer->position().number > position_.number) position_ = writer->position();
        continue;
      }
    }
    Tail& tail = tails_[rank];
    try {
      go_on(tail, names);
    } catch (const RecordError& error) {
      throw SinkError{SinkError::Kind::wrong, error.what()};
    } catch (const SegmentGone& error) {  // it was compacted in the meantime
      throw SinkError{SinkError::Kind::retry, error.what()};
    }
    if (tail.part.commit) state.commits[rank] = *tail.part.commit;
    if (tail.part.position.number > position_.number) position_ = tail.part.position;
  }
  positions_ = std::max(positions_.value_or(0), position_.number);
}

/** At first reads from the last segment that has a commit; later continues where it stopped. */
void FileSink::go_on(Tail& tail, const std::vector<SegmentName>& segments) const {
  auto from = std::ranges::find(segments, tail.segment);
  if (from != segments.end()) {
    for (; from != segments.end(); ++from) {
      if (*from != tail.segment) {
        tail.segment = *from;
        tail.part.end = 0;
      }
      read_whole_part(options_.folder / to_string(*from), *from == segments.back(), tail.part);
    }
    if (tail.part.end <= tail.part.size) return;
  }
  tail = {.segment = segments.back()};
  for (auto name = segments.rbegin(); name != segments.rend() && !tail.part.commit; ++name) {
    WholePart part;
    read_whole_part(options_.folder / to_string(*name), *name == segments.back(), part);
    if (*name == segments.back()) tail.part = part;
    tail.part.commit = part.commit;
    tail.part.position = part.position;
  }
}

void FileSink::begin(const StreamSchema& given) {
  const std::lock_guard lock{mutex_};
  if (schema() == nullptr) schema_ = create_schema(options_.folder, given);
  check_schema(given, {.schema = schema_}, name());
}

NumberedPosition FileSink::numbered(std::string_view position) {
  if (position.empty()) return {};
  const std::lock_guard lock{mutex_};
  if (!positions_) {
    SinkState others;
    see_others(others, segments_in(options_.folder));
  }
  return {.number = ++*positions_, .text = std::string{position}};
}

void FileSink::write(const StepBatch& batch, std::string_view position) {
  const std::uint32_t rank = batch.commit.rank;
  std::unique_lock lock{mutex_};
  const StreamSchema* const tables = schema();
  if (tables == nullptr) {
    throw SinkError{SinkError::Kind::wrong, name() + ": it has no schema yet"};
  }
  Writing& writing = ranks_[rank];
  lock.unlock();
  const NumberedPosition behind = numbered(position);
  {
    const std::lock_guard of_rank{writing.mutex};
    // Removed files are made anew: nothing is written to a file without a name.
    if (writing.writer && !writing.writer->is_there()) writing.writer.reset();
    if (!writing.writer) begin_to_write(writing, *tables, rank);
    SinkState mine;
    if (writing.writer->commit()) mine.commits[rank] = *writing.writer->commit();
    if (!continues(mine, batch.commit, name())) return;
    writing.writer->write(batch, behind);
    if (batch.commit.after == Version{}) writing.lost = false;  // a snapshot follows
  }
  if (behind.number == 0) return;
  lock.lock();
  // Ranks may finish their writes in another order than they took their numbers.
  if (behind.number > position_.number) position_ = behind;
}

/** Also works after the segments, or the folder, were removed. */
void FileSink::begin_to_write(Writing& writing, const StreamSchema& tables, std::uint32_t rank) {
  check_schema(tables, {.schema = create_schema(options_.folder, tables)}, name());
  writing.writer.emplace(options_, tables, rank);
}

void FileSink::flush() {
  std::vector<Writing*> all;
  {
    const std::lock_guard lock{mutex_};
    for (auto& [rank, writing] : ranks_) all.push_back(&writing);
  }
  for (Writing* const writing : all) {
    const std::lock_guard of_rank{writing->mutex};
    if (writing->writer) flush(*writing);
  }
}

/** The error goes to the rank that called; the rank whose rows are lost hears of it in `audit`. */
void FileSink::flush(Writing& writing) {
  const std::optional<StepCommit> before = writing.writer->commit();
  if (!writing.writer->is_there()) {
    writing.writer.reset();
    writing.lost = writing.lost || before.has_value();
    throw SinkError{SinkError::Kind::retry,
                    name() + ": files that were written there have been removed"};
  }
  try {
    writing.writer->flush();
  } catch (const SinkError&) {
    const std::optional<StepCommit>& after = writing.writer->commit();
    if (before && (!after || after->version != before->version)) writing.lost = true;
    throw;
  }
}

/** Checks earlier segments only; the writer watches its own. */
void FileSink::look_for_gap(std::uint32_t rank) {
  const std::lock_guard lock{mutex_};
  if (gaps_looked_for_.contains(rank)) return;
  const Segments segments = segments_in(options_.folder);
  const auto mine = segments.find(rank);
  try {
    const std::string gap =
        mine == segments.end() ? "" : find_gap(options_.folder, mine->second, finish_by_);
    gaps_looked_for_.insert(rank);  // only now: after an error it has to look again
    if (!gap.empty()) throw SinkError{SinkError::Kind::lost, fmt::format("{}: {}", name(), gap)};
  } catch (const RecordError& error) {
    throw SinkError{SinkError::Kind::wrong, error.what()};
  }
}

// A rank's segments are locked, so no other trainer can write for it.
void FileSink::audit(std::uint32_t rank, std::uint64_t) {
  look_for_gap(rank);
  std::unique_lock lock{mutex_};
  const auto mine = ranks_.find(rank);
  if (mine == ranks_.end()) return;
  Writing& writing = mine->second;
  lock.unlock();
  const std::lock_guard of_rank{writing.mutex};
  if (std::exchange(writing.lost, false)) {
    throw SinkError{SinkError::Kind::lost,
                    fmt::format("{}: rows of rank {} were lost when it was flushed", name(), rank)};
  }
  const std::string gone = writing.writer ? writing.writer->take_gone() : "";
  if (gone.empty()) return;
  throw SinkError{SinkError::Kind::lost, fmt::format("{}: {} was removed", name(), gone)};
}

void FileSink::read(const std::function<void(const RowRecord&)>& visit) {
  std::unique_lock lock{mutex_};
  const StreamSchema* const tables = schema();
  lock.unlock();
  if (tables == nullptr) return;
  try {
    read_newest(options_.folder, *tables, visit, finish_by_);
  } catch (const SegmentGone& error) {  // it was compacted in the meantime
    throw SinkError{SinkError::Kind::retry, error.what()};
  }
}

std::unique_ptr<Sink> open_file_sink(std::string_view spec) {
  return std::make_unique<FileSink>(parse_file_address(spec));
}

std::uint64_t FileSink::snapshot_request() { return snapshot_request_in(options_.folder); }

}  // namespace millrace::sink
