#include "sink/file/compaction.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace millrace::sink {
namespace {

/** Bytes of batches that are merged into one. */
constexpr std::size_t kBatchBytes = std::size_t{1} << 20;
constexpr std::size_t kWriteBytes = std::size_t{1} << 20;

std::filesystem::path unfinished_in(const std::filesystem::path& folder, std::uint32_t rank) {
  return folder / fmt::format(".compacting-rank-{:04}", rank);
}

}  // namespace

void remove_unfinished(Disk& disk, const std::filesystem::path& folder, std::uint32_t rank) {
  disk.unlink(unfinished_in(folder, rank).c_str());
}

Compaction::Compaction(const Environment& place, std::vector<SegmentName> segments,
                       const StreamSchema& schema, std::uint64_t log)
    : environment_(place),
      segments_(std::move(segments)),
      schema_(schema),
      log_(log),
      unfinished_(unfinished_in(place.folder, segments_.front().rank)) {}

Compaction::~Compaction() {
  if (file_) environment_.disk.unlink(unfinished_.c_str());
}

std::optional<Compaction::CompactedSegment> Compaction::go_on(std::size_t bytes) {
  // Two passes over the segments: the first finds the newest version of each row, the second copies
  // it. Each call does one piece, so no write waits for a whole compaction.
  if (!read(bytes)) return std::nullopt;
  if (file_) return finish();
  begin_to_write();
  return std::nullopt;
}

/** @return true at the end of all segments */
bool Compaction::read(std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    if (!reader_) {
      if (at_ == segments_.size()) return true;
      reader_.emplace(environment_.folder / to_string(segments_[at_]));
    }
    if (const std::optional<Record> record = reader_->next()) {
      take(*record);
      done += record->bytes;
      continue;
    }
    // Only a rank's last segment may end in the middle of a batch, and that one is not compacted.
    if (reader_->offset() != reader_->size() || rows_ != 0) {
      throw RecordError{reader_->path().string() +
                        ": the segment is truncated, but later segments exist"};
    }
    reader_.reset();
    ++at_;
  }
  return false;
}

void Compaction::take(const Record& record) {
  const bool again = static_cast<bool>(file_);
  switch (record.kind) {
    case RecordKind::row:
      ++rows_;
      return again ? keep(record.row) : look_at(record.row);
    case RecordKind::commit:
      if (record.commit.rows != std::exchange(rows_, 0)) {
        throw RecordError{reader_->path().string() +
                          ": the commit does not belong to the rows before it"};
      }
      if (again) end_batch(record.commit);
      return;
    case RecordKind::position:
      position_ = {.number = record.version.step, .text = std::string{record.position}};
      return;
    case RecordKind::schema:
      if (record.schema != schema_) {
        throw RecordError{reader_->path().string() + ": the segment belongs to other tables"};
      }
      return;
  }
}

void Compaction::look_at(const RowRecord& row) {
  const Kept here{.version = row.version, .offset = reader_->offset(), .segment = at_};
  const auto [kept, is_first] = newest_.try_emplace(key_of(row), here);
  if (!is_first && kept->second.version < row.version) kept->second = here;
}

void Compaction::keep(const RowRecord& row) {
  Kept& kept = newest_.at(key_of(row));
  const bool was_written = std::exchange(kept.written, true);
  if (kept.segment == at_ && kept.offset == reader_->offset()) {
    if (was_written) --to_come_;
    const auto bytes = reader_->bytes();
    batch_.insert(batch_.end(), bytes.begin(), bytes.end());
    ++batch_rows_;
  } else if (!was_written) {
    ++to_come_;
  }
}

void Compaction::end_batch(const StepCommit& commit) {
  std::optional<StepCommit>& open = batches_.commit;
  const bool begins = commit.after == Version{};
  const bool goes_on = open && (begins || commit.after == open->version);
  const bool full = batches_.bytes >= std::min(kBatchBytes, environment_.flush_bytes);
  if (open && (full || !goes_on)) write_commit(false);
  const Version after = open && !begins ? open->after : commit.after;
  const std::uint64_t rows = (open ? open->rows : 0) + std::exchange(batch_rows_, 0);
  open = commit;
  open->after = after;
  open->rows = rows;
  // Rows whose newest version comes later: a reader that stops here lacks them.
  open->missing += to_come_;
  batches_.bytes += batch_.size();
  out_.insert(out_.end(), batch_.begin(), batch_.end());
  batch_.clear();
  write_out(kWriteBytes);
}

void Compaction::write_commit(bool is_last) {
  if (is_last && position_.number > 0) append_position(out_, position_.text, {0, position_.number});
  if (batches_.commit) append_record(out_, *batches_.commit);
  batches_ = {};
}

void Compaction::write_out(std::size_t least) {
  if (out_.size() < least) return;
  write_all(environment_.disk, file_, out_, unfinished_);
  written_ += out_.size();
  out_.clear();
  if (written_ - flushed_ < environment_.flush_bytes) return;
  if (environment_.disk.fsync(file_.get()) != 0) throw_system_error(errno, unfinished_.string());
  flushed_ = written_;
}

void Compaction::begin_to_write() {
  file_ = open_file(unfinished_, O_WRONLY | O_CREAT | O_TRUNC);
  append_record(out_, schema_, {segments_.back().epoch, log_});
  position_ = {};
  at_ = 0;
}

Compaction::CompactedSegment Compaction::finish() {
  write_commit(true);
  write_out(1);
  if (environment_.disk.fsync(file_.get()) != 0) throw_system_error(errno, unfinished_.string());
  CompactedSegment made{.name = segments_.back(), .bytes = written_};
  made.name.compacted = true;
  const std::filesystem::path path = environment_.folder / to_string(made.name);
  // The bytes are on the disk before the file gets its name, and the name is on the disk before the
  // old segments are removed. After a crash, either all old segments or the new one exist.
  if (environment_.disk.rename(unfinished_.c_str(), path.c_str()) != 0) {
    throw_system_error(errno, path.string());
  }
  file_.close();
  flush_folder(environment_.disk, environment_.folder);
  remove_superseded(environment_.disk, environment_.folder, made.name.rank);
  return made;
}

void remove_superseded(Disk& disk, const std::filesystem::path& folder, std::uint32_t rank) {
  for (const SegmentName& name : superseded_in(folder, rank)) {
    disk.unlink((folder / to_string(name)).c_str());
  }
}

}  // namespace millrace::sink
