#include "sink/rocksdb/rocksdb_sink.hpp"

#include <fmt/format.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sink/chain.hpp"
#include "sink/file/folder.hpp"
#include "sink/kinds.hpp"

namespace millrace::sink {
namespace {

constexpr std::size_t kRowsAtOnce = 1024;  ///< rows that are looked up together
constexpr int kPatience = 10;  ///< attempts to open: half a minute, with a shipper's pauses
constexpr std::string_view kSchema = "schema", kPosition = "position", kCommitKey = "mark/";

rocksdb::Slice slice(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
rocksdb::Slice slice(std::string_view text) { return {text.data(), text.size()}; }
std::span<const std::byte> bytes_of(const rocksdb::Slice& slice) {
  return {reinterpret_cast<const std::byte*>(slice.data()), slice.size()};
}

/** Returns the table's name, a zero byte and the row, big-endian: keys are sorted by row. */
std::string key_of(const RowRecord& row, const StreamSchema& schema) {
  std::string key = schema.tables[row.table].name;
  key.push_back('\0');
  for (int shift = 56; shift >= 0; shift -= 8) {
    key.push_back(static_cast<char>(static_cast<std::uint64_t>(row.row) >> shift & 0xFF));
  }
  return key;
}

/** Keeps a record at an address from which floats can be read. */
class Aligned {
 public:
  explicit Aligned(const rocksdb::Slice& slice) {
    const auto bytes = bytes_of(slice);
    bytes_.assign(bytes.begin(), bytes.end());
  }
  [[nodiscard]] Record parsed() const { return parse_record(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/**
 * Returns whether the value is the same row as this record, in a version that is at least as new.
 */
bool is_as_new(const rocksdb::Slice& value, std::span<const std::byte> record) {
  const auto there = bytes_of(value);
  if (there.size() < kRecordOverhead || record_version(there) < record_version(record)) {
    return false;
  }
  try {
    const Aligned kept{value}, given{slice(record)};
    const Record old = kept.parsed(), row = given.parsed();
    return old.kind == RecordKind::row && old.row.table == row.row.table &&
           old.row.row == row.row.row;
  } catch (const RecordError&) {
    return false;
  }
}

}  // namespace

RocksdbSink::RocksdbSink(RocksdbOptions options)
    : options_(std::move(options)), shared_(shared(options_)) {}

std::shared_ptr<RocksdbSink::Shared> RocksdbSink::shared(const RocksdbOptions& options) {
  // A process can open a database only once, so all sinks of a folder share it.
  static std::mutex mutex;
  static std::map<std::pair<std::filesystem::path, const rocksdb::Env*>, std::weak_ptr<Shared>> all;
  const std::lock_guard lock{mutex};
  std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Shared>& known =
      all[{std::filesystem::weakly_canonical(options.folder), options.env}];
  std::shared_ptr<Shared> one = known.lock();
  if (!one) known = one = std::make_shared<Shared>();
  return one;
}

/** Closes a database that was removed: it could still be written to, but the data would be lost. */
bool RocksdbSink::close_if_gone() {
  if (!shared_->database || shared_->database->is_still_there()) return false;
  shared_->database.reset();
  replace_state({});
  shared_->patience = kPatience;
  return true;
}

/**
 * Ranks share the database, and only the one that calls gets an error. The others hear of commits
 * that are no longer there in `audit`.
 */
void RocksdbSink::replace_state(SinkState state) {
  for (const auto& [rank, before] : shared_->state.commits) {
    const auto now = state.commits.find(rank);
    if (now == state.commits.end() || now->second.version < before.version) {
      shared_->lost.insert(rank);
    }
  }
  shared_->state = std::move(state);
}

/**
 * Files are removed one by one, so a database that is being removed looks damaged for a while:
 * `wrong` becomes `retry` a few times.
 */
template <typename Open>
auto RocksdbSink::patiently(const Open& open) {
  try {
    return open();
  } catch (const SinkError& error) {
    if (error.kind() != SinkError::Kind::wrong || shared_->patience == 0) throw;
    --shared_->patience;
    throw SinkError{SinkError::Kind::retry, error.what()};
  }
}

/** Opens the database if it is not open. After a failure, reads its state again. */
void RocksdbSink::open() {
  static_cast<void>(close_if_gone());
  if (shared_->is_failed && shared_->database) {
    // After an error in the background, RocksDB refuses all writes until it is resumed.
    if (!(*shared_->database)->Resume().ok()) shared_->database.reset();
  }
  if (!shared_->database) {
    shared_->is_failed = true;
    shared_->database = patiently([&] { return std::make_shared<Database>(options_); });
    shared_->patience = 0;
  }
  if (!shared_->is_failed) return;
  replace_state(stored_state(*shared_->database));
  shared_->is_failed = false;
  if (!shared_->state.schema && shared_->begun) write_schema(*shared_->begun);
}

void RocksdbSink::write_schema(const StreamSchema& schema) {
  rocksdb::WriteOptions synchronously;
  synchronously.sync = true;
  put((*shared_->database)
          ->Put(synchronously, shared_->database->stream(), slice(kSchema), to_json(schema)));
  shared_->state.schema = schema;
}

/** Checks the result of a write. */
void RocksdbSink::put(const rocksdb::Status& status) {
  shared_->is_failed = !status.ok();
  check(status, name());
}

SinkState RocksdbSink::stored_state(const Database& database) const {
  SinkState state;
  const std::unique_ptr<rocksdb::Iterator> entry{
      database->NewIterator(rocksdb::ReadOptions{}, database.stream())};
  try {
    for (entry->SeekToFirst(); entry->Valid(); entry->Next()) {
      const std::string key = entry->key().ToString();
      if (key == kSchema) state.schema = parse_stream_schema(entry->value().ToStringView());
      if (key == kPosition) state.position = entry->value().ToString();
      if (!key.starts_with(kCommitKey)) continue;
      const StepCommit commit = Aligned{entry->value()}.parsed().commit;
      state.commits[commit.rank] = commit;
    }
  } catch (const RecordError& error) {
    throw SinkError{SinkError::Kind::wrong, fmt::format("{}: {}", name(), error.what())};
  }
  check(entry->status(), name());
  return state;
}

/**
 * Returns the database that this process has open, otherwise the present one in the folder; null:
 * none.
 */
std::shared_ptr<Database> RocksdbSink::to_read() {
  if (close_if_gone() || !shared_->database) {
    return patiently([&]() -> std::shared_ptr<Database> { return Database::look(options_); });
  }
  open();
  return shared_->database;
}

SinkState RocksdbSink::state() {
  const std::lock_guard lock{shared_->mutex};
  const std::shared_ptr<Database> database = to_read();
  if (!database) return {};
  return database == shared_->database ? shared_->state : stored_state(*database);
}

void RocksdbSink::begin(const StreamSchema& schema) {
  const std::lock_guard lock{shared_->mutex};
  open();
  check_schema(schema, shared_->state, name());
  if (!shared_->state.schema) write_schema(schema);
  shared_->begun = schema;
}

/** Adds the rows that are newer than those in the database. */
void RocksdbSink::add_newer(rocksdb::WriteBatch& updates, const StepBatch& batch, std::size_t from,
                            std::size_t to) const {
  const Database& database = *shared_->database;
  std::vector<std::string> keys;
  for (std::size_t i = from; i < to; ++i) {
    const RowRecord row = batch.row(i);
    check_row(row, *shared_->state.schema);
    keys.push_back(key_of(row, *shared_->state.schema));
  }
  const std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
  std::vector<rocksdb::PinnableSlice> found(keys.size());
  std::vector<rocksdb::Status> statuses(keys.size());
  database->MultiGet(rocksdb::ReadOptions{}, database.rows(), keys.size(), slices.data(),
                     found.data(), statuses.data());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::span<const std::byte> record = batch.record(from + i);
    if (!statuses[i].IsNotFound()) {
      check(statuses[i], name());
      // A row that arrives late does not replace a newer one.
      if (is_as_new(found[i], record)) continue;
    }
    check(updates.Put(database.rows(), slices[i], slice(record)), name());
  }
}

void RocksdbSink::write(const StepBatch& batch, std::string_view position) {
  const std::lock_guard lock{shared_->mutex};
  open();
  if (!continues(shared_->state, batch.commit, name())) return;
  if (!shared_->state.schema) {
    throw SinkError{SinkError::Kind::wrong, name() + ": it has no schema yet"};
  }
  const Database& database = *shared_->database;
  // Rows, commit and position in one batch, which RocksDB writes completely or not at all.
  rocksdb::WriteBatch updates{batch.bytes() + 64 * batch.size()};
  try {
    for (std::size_t from = 0; from < batch.size(); from += kRowsAtOnce) {
      add_newer(updates, batch, from, std::min(from + kRowsAtOnce, batch.size()));
    }
  } catch (const RecordError& error) {
    throw SinkError{SinkError::Kind::wrong, fmt::format("{}: {}", name(), error.what())};
  }
  std::vector<std::byte> commit;
  append_record(commit, batch.commit);
  check(updates.Put(database.stream(), fmt::format("{}{:04}", kCommitKey, batch.commit.rank),
                    slice(commit)),
        name());
  if (!position.empty()) {
    check(updates.Put(database.stream(), slice(kPosition), slice(position)), name());
  }
  put(database->Write(rocksdb::WriteOptions{}, &updates));
  shared_->state.commits[batch.commit.rank] = batch.commit;
  if (batch.commit.after == Version{})
    shared_->lost.erase(batch.commit.rank);  // a snapshot follows
  if (!position.empty()) shared_->state.position = position;
}

void RocksdbSink::flush() {
  const std::lock_guard lock{shared_->mutex};
  if (close_if_gone()) {
    throw SinkError{SinkError::Kind::retry,
                    name() + ": files that were written there have been removed"};
  }
  if (shared_->is_failed) open();
  if (shared_->database) put((*shared_->database)->FlushWAL(true));
}

// Only one process can have the database open; another one may change it after a failure closed it.
void RocksdbSink::audit(std::uint32_t rank, std::uint64_t epoch) {
  const std::lock_guard lock{shared_->mutex};
  static_cast<void>(close_if_gone());
  const std::uint64_t there = shared_->state.newest_epoch();
  if (there > epoch) refuse_overtaken(there, epoch, name());
  if (shared_->lost.erase(rank) != 0) {
    throw SinkError{SinkError::Kind::lost,
                    fmt::format("{}: commits of rank {} are no longer there", name(), rank)};
  }
  if (!shared_->database) return;
  const std::string gone = shared_->database->file_that_is_gone();
  if (gone.empty()) return;
  throw SinkError{
      SinkError::Kind::wrong,
      fmt::format("{}: {} was removed, and rows with it; move the folder away; an empty "
                  "folder is filled with all rows",
                  name(), gone)};
}

void RocksdbSink::read(const std::function<void(const RowRecord&)>& visit) {
  std::unique_lock lock{shared_->mutex};
  const std::shared_ptr<Database> database = to_read();  // stays open while it is read
  if (!database) return;
  const std::optional<StreamSchema> schema =
      database == shared_->database ? shared_->state.schema : stored_state(*database).schema;
  lock.unlock();
  if (!schema) return;
  rocksdb::ReadOptions all;
  // A read of all rows would evict the rows that `write` looks up from the cache.
  all.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> entry{(*database)->NewIterator(all, database->rows())};
  for (entry->SeekToFirst(); entry->Valid(); entry->Next()) {
    const Aligned kept{entry->value()};
    const Record record = kept.parsed();
    check_row(record.row, *schema);
    if (record.kind != RecordKind::row || key_of(record.row, *schema) != entry->key()) {
      throw RecordError{fmt::format("{}: row {} of '{}' is stored under another row's key", name(),
                                    record.row.row, schema->tables[record.row.table].name)};
    }
    visit(record.row);
  }
  if (entry->status().IsCorruption()) {
    throw RecordError{fmt::format("{}: {}", name(), entry->status().ToString())};
  }
  check(entry->status(), name());
}

std::unique_ptr<Sink> open_rocksdb_sink(std::string_view spec) {
  return std::make_unique<RocksdbSink>(RocksdbOptions{.folder = folder_of(spec, "rocksdb:")});
}

}  // namespace millrace::sink
