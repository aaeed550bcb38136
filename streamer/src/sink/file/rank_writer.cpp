#include "sink/file/rank_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <system_error>
#include <utility>

#include "millrace/streamer/sink.hpp"

namespace millrace::sink {
namespace {

/** Limits on the number of closed segments. */
constexpr std::size_t kLeastSegments = 4, kMostSegments = 64;
/**
 * Bytes that a compaction reads per byte written. It reads everything twice, so it ends when a
 * quarter as much was appended.
 */
constexpr std::size_t kReadForWritten = 8;

/** Draws the name of a log: never 0. */
std::uint64_t drawn() {
  std::random_device random;
  return (std::uint64_t{random()} << 32U | random()) | 1U;
}

File locked(const std::filesystem::path& path, std::uint32_t rank) {
  File lock = open_file(path, O_RDWR | O_CREAT);
  // A lock of the file, which the system releases when the process ends.
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) throw_system_error(errno, path.string());
    throw SinkError{
        SinkError::Kind::wrong,
        fmt::format(
            "{}: another process writes here for rank {}; each trainer needs its own folder",
            path.parent_path().string(), rank)};
  }
  return lock;
}

}  // namespace

RankWriter::RankWriter(const FileOptions& options, const StreamSchema& schema, std::uint32_t rank)
    : options_(options),
      schema_(schema),
      lock_(locked(options.folder / fmt::format("rank-{:04}.lock", rank), rank)) {
  name_.rank = rank;
  const Segments segments = segments_in(options_.folder);
  const auto mine = segments.find(rank);
  if (mine != segments.end()) take_over(mine->second);
}

void RankWriter::take_over(const std::vector<SegmentName>& segments) {
  // The writer before may have been killed after it gave a compacted segment its name. The name
  // must be on the disk before the segments are removed that it replaces.
  flush_folder(*options_.disk, options_.folder);
  remove_superseded(*options_.disk, options_.folder, segments.back().rank);
  remove_unfinished(*options_.disk, options_.folder, segments.back().rank);
  name_ = segments.back();
  try {
    for (auto name = segments.rbegin(); name != segments.rend() && !now_.commit; ++name) {
      WholePart part;
      read_whole_part(path_of(*name), *name == name_, part);
      if (*name == name_) now_.end = part.end;
      now_.commit = part.commit;
      now_.position = part.position;
    }
  } catch (const RecordError& error) {
    throw SinkError{SinkError::Kind::wrong,
                    fmt::format("{}; nothing can be appended to this segment (expected an empty "
                                "folder)",
                                error.what())};
  }
  for (const SegmentName& name : segments) {
    const SegmentReader reader{path_of(name)};
    log_ = reader.log().value_or(log_);
    if (name != name_) closed_.push_back({name, reader.size()});
  }
  file_ = open_file(path_of(name_), O_WRONLY | O_APPEND);
  flushed_ = now_;
  torn_ = true;
  flush();
  // Nothing is appended to an earlier trainer's segment: the next write begins a new one.
  ended_ = true;
}

std::filesystem::path RankWriter::path_of(const SegmentName& name) const {
  return options_.folder / to_string(name);
}

void RankWriter::cut_off() {
  if (!torn_) return;
  if (options_.disk->ftruncate(file_.get(), static_cast<off_t>(now_.end)) != 0) {
    throw_system_error(errno, path_of(name_).string());
  }
  torn_ = false;
}

void RankWriter::begin_segment(std::uint64_t epoch) {
  flush();
  if (log_ == 0) log_ = drawn();
  const SegmentName next{.rank = name_.rank, .number = name_.number + 1, .epoch = epoch};
  // O_EXCL: a file of that number would belong to another writer.
  file_ = open_file(path_of(next), O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
  if (name_.number > 0) {
    closed_.push_back({name_, now_.end});
    compact_ = true;
  }
  name_ = next;
  now_.end = flushed_.end = 0;
  ended_ = folder_flushed_ = false;
}

void RankWriter::write(const StepBatch& batch, const NumberedPosition& position) {
  const std::uint64_t epoch = batch.commit.version.epoch;
  if (file_) cut_off();
  if (!file_ || ended_ || now_.end >= options_.segment_bytes || name_.epoch != epoch) {
    begin_segment(epoch);
  }
  const NumberedPosition& newest = position.number > 0 ? position : now_.position;
  std::vector<std::byte> before, behind;
  if (now_.end == 0) append_record(before, schema_, {epoch, log_});
  if (newest.number > 0 && (now_.end == 0 || position.number > 0)) {
    append_position(behind, newest.text, {0, newest.number});
  }
  append_record(behind, batch.commit);
  torn_ = true;
  try {
    for (const std::span<const std::byte> bytes :
         {std::span<const std::byte>{before}, batch.records(),
          std::span<const std::byte>{behind}}) {
      write_all(*options_.disk, file_, bytes, path_of(name_));
    }
  } catch (const SinkError&) {
    if (options_.disk->ftruncate(file_.get(), static_cast<off_t>(now_.end)) == 0) torn_ = false;
    throw;
  }
  torn_ = false;
  const std::size_t bytes = before.size() + batch.bytes() + behind.size();
  now_ = {now_.end + bytes, batch.commit, newest};
  if (batch.commit.after == Version{}) chain_ = name_.number;
  // Once no row is missing, everything before the chain that began with a snapshot is superseded.
  if (batch.commit.missing == 0 && chain_ != 0) needed_from_ = chain_;
  compact(bytes);
}

std::string RankWriter::take_gone() {
  for (auto closed = closed_.begin(); closed != closed_.end(); ++closed) {
    if (closed->name.number < needed_from_ || open_to_read(path_of(closed->name))) continue;
    std::string name = to_string(closed->name);
    closed_.erase(closed);
    return name;
  }
  return {};
}

bool RankWriter::worth_compacting() const {
  if (options_.keep == Keep::all || !compact_ || closed_.empty()) return false;
  std::uint64_t compacted = 0, others = 0;
  for (const Closed& closed : closed_) (closed.name.compacted ? compacted : others) += closed.bytes;
  return others >= std::max<std::uint64_t>(compacted, kLeastSegments * options_.segment_bytes) ||
         closed_.size() > kMostSegments;
}

void RankWriter::begin_compaction() {
  std::vector<SegmentName> names;
  for (const Closed& closed : closed_) names.push_back(closed.name);
  compaction_.emplace(
      Compaction::Environment{options_.folder, *options_.disk, options_.segment_bytes},
      std::move(names), schema_, log_);
}

/** Errors do not fail the write, which is already done. */
void RankWriter::compact(std::size_t bytes) {
  if (!compaction_ && !worth_compacting()) return;
  try {
    if (!compaction_) begin_compaction();
    const auto made = compaction_->go_on(kReadForWritten * bytes);
    if (made) adopt(*made);
  } catch (const std::exception&) {
    compaction_.reset();
    // Tried again when the next segment is closed, not at every write.
    compact_ = false;
  }
}

void RankWriter::adopt(const Compaction::CompactedSegment& made) {
  compaction_.reset();
  std::erase_if(closed_,
                [&](const Closed& closed) { return closed.name.number <= made.name.number; });
  closed_.insert(closed_.begin(), {made.name, made.bytes});
}

void RankWriter::flush() {
  if (!file_) return;
  cut_off();
  if (options_.disk->fsync(file_.get()) != 0) forget_unflushed(errno);
  flushed_ = now_;
  if (folder_flushed_) return;
  flush_folder(*options_.disk, options_.folder);
  folder_flushed_ = true;
}

/**
 * Data that could not be flushed may be lost, although it can still be read for a while. A reader
 * may have seen it, so nothing else is written in its place.
 */
void RankWriter::forget_unflushed(int error) {
  now_ = flushed_;
  ended_ = true;
  torn_ = options_.disk->ftruncate(file_.get(), static_cast<off_t>(now_.end)) != 0;
  throw SinkError{SinkError::Kind::retry,
                  fmt::format("{}: {}; it has what was flushed before", path_of(name_).string(),
                              std::generic_category().message(error))};
}

}  // namespace millrace::sink
