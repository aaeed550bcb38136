#include "sink/file/rank_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <system_error>

#include "millrace/streamer/sink.hpp"

namespace millrace::sink {
namespace {

File locked(const std::filesystem::path& path, std::uint32_t rank) {
  File lock = open_file(path, O_RDWR | O_CREAT);
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) throw_system_error(errno, path.string());
    throw SinkError{
        SinkError::Kind::wrong,
        fmt::format(
            "{}: somebody else writes here for rank {}; a trainer takes a folder of its own",
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
  name_ = segments.back();
  try {
    for (auto name = segments.rbegin(); name != segments.rend() && !now_.mark; ++name) {
      WholePart part;
      read_whole_part(path_of(*name), *name == name_, part);
      if (*name == name_) now_.end = part.end;
      now_.mark = part.mark;
      now_.position = part.position;
    }
  } catch (const RecordError& error) {
    throw SinkError{SinkError::Kind::wrong,
                    fmt::format("{}; nothing can be written behind it: an empty folder would be "
                                "right",
                                error.what())};
  }
  file_ = open_file(path_of(name_), O_WRONLY | O_APPEND);
  flushed_ = now_;
  torn_ = true;
  flush();
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
  const SegmentName next{.rank = name_.rank, .number = name_.number + 1, .epoch = epoch};
  file_ = open_file(path_of(next), O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
  name_ = next;
  now_.end = flushed_.end = 0;
  ended_ = folder_flushed_ = false;
}

void RankWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    torn_ = true;
    const ssize_t written = options_.disk->write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw_system_error(written < 0 ? errno : EIO, path_of(name_).string());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void RankWriter::write(const StepBatch& batch, const NumberedPosition& position) {
  const std::uint64_t epoch = batch.mark.version.epoch;
  if (file_) cut_off();
  if (!file_ || ended_ || now_.end >= options_.segment_bytes || name_.epoch != epoch) {
    begin_segment(epoch);
  }
  const NumberedPosition& newest = position.number > 0 ? position : now_.position;
  std::vector<std::byte> before, behind;
  if (now_.end == 0) append_record(before, schema_, {epoch, 0});
  if (newest.number > 0 && (now_.end == 0 || position.number > 0)) {
    append_position(behind, newest.text, {0, newest.number});
  }
  append_record(behind, batch.mark);
  try {
    append(before);
    append(batch.records());
    append(behind);
  } catch (const SinkError&) {
    if (options_.disk->ftruncate(file_.get(), static_cast<off_t>(now_.end)) == 0) torn_ = false;
    throw;
  }
  torn_ = false;
  now_ = {now_.end + before.size() + batch.bytes() + behind.size(), batch.mark, newest};
}

void RankWriter::flush() {
  if (!file_) return;
  cut_off();
  if (options_.disk->fsync(file_.get()) != 0) forget_unflushed(errno);
  flushed_ = now_;
  if (folder_flushed_) return;
  const File folder = open_file(options_.folder, O_RDONLY | O_DIRECTORY);
  if (options_.disk->fsync(folder.get()) != 0) throw_system_error(errno, options_.folder.string());
  folder_flushed_ = true;
}

/** What could not be brought to the disk may be gone, although it can be read for a while. Somebody
 *  may have read it: nothing else is written where it was. */
void RankWriter::forget_unflushed(int error) {
  now_ = flushed_;
  ended_ = true;
  torn_ = options_.disk->ftruncate(file_.get(), static_cast<off_t>(now_.end)) != 0;
  throw SinkError{SinkError::Kind::retry,
                  fmt::format("{}: {}; it has what was flushed before", path_of(name_).string(),
                              std::generic_category().message(error))};
}

}  // namespace millrace::sink
