#include "sink/rocksdb/database.hpp"

#include <fmt/format.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <system_error>
#include <thread>
#include <vector>

#include "millrace/streamer/sink.hpp"
#include "sink/file/disk.hpp"
#include "sink/file/folder.hpp"

namespace millrace::sink {
namespace {

constexpr const char* kStream = "stream";
constexpr const char *kCurrent = "CURRENT", *kLock = "LOCK";
constexpr int kLooks = 5;
constexpr std::chrono::milliseconds kBetweenLooks{20};

/**
 * Drops RocksDB's log messages. A log file would fail together with the disk, and a RocksDB that is
 * built with assertions, like Debian's, ends the process when it writes to a file that failed.
 */
class NoMessages final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

rocksdb::Options options_with(const RocksdbOptions& given) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.env = given.env;
  options.info_log = std::make_shared<NoMessages>();
  options.write_buffer_size = given.write_buffer_bytes;
  options.max_background_jobs = 2;
  options.compression = rocksdb::kNoCompression;  // floats hardly compress
  rocksdb::BlockBasedTableOptions table;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));  // most rows are looked up once
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

[[noreturn]] void refuse(const std::filesystem::path& folder, const std::string& what) {
  throw SinkError{SinkError::Kind::wrong,
                  fmt::format("rocksdb:{}: {} (expected an empty folder)", folder.string(), what)};
}

constexpr const char* kForeign = "the database belongs to another program";

/** Returns whether an unfinished opening may have left a file of this name. */
bool is_of_rocksdb(const std::string& name) {
  constexpr const char* kBeginnings[] = {"LOG", "LOCK", "IDENTITY", "MANIFEST-", "OPTIONS-", "."};
  constexpr const char* kEnds[] = {".log", ".sst", ".dbtmp"};
  return name == "lost+found" ||
         std::ranges::any_of(kBeginnings, [&](auto text) { return name.starts_with(text); }) ||
         std::ranges::any_of(kEnds, [&](auto text) { return name.ends_with(text); });
}

void make_empty_folder(const std::filesystem::path& folder) {
  make_folder(folder);
  try {
    for (const auto& entry : std::filesystem::directory_iterator{folder}) {
      const std::string name = entry.path().filename().string();
      if (!is_of_rocksdb(name)) {
        refuse(folder, fmt::format("it contains '{}', but no database", name));
      }
    }
  } catch (const std::filesystem::filesystem_error& error) {
    throw_system_error(error.code().value(), folder.string());
  }
}

/**
 * A database without our column family belongs to another program, unless it is still empty.
 * @return true if it has our family
 */
bool is_ours(const std::filesystem::path& folder, const rocksdb::Options& options) {
  std::vector<std::string> families;
  check(rocksdb::DB::ListColumnFamilies(options, folder.string(), &families),
        "rocksdb:" + folder.string());
  if (std::ranges::find(families, kStream) != families.end()) return true;
  if (families.size() > 1) refuse(folder, kForeign);
  rocksdb::Options to_read = options;
  to_read.create_if_missing = false;
  rocksdb::DB* opened = nullptr;
  check(rocksdb::DB::OpenForReadOnly(to_read, folder.string(), &opened),
        "rocksdb:" + folder.string());
  const std::unique_ptr<rocksdb::DB> db{opened};
  const std::unique_ptr<rocksdb::Iterator> rows{db->NewIterator({})};
  rows->SeekToFirst();
  if (rows->Valid()) refuse(folder, kForeign);
  return false;
}

std::vector<rocksdb::ColumnFamilyDescriptor> families_with(const rocksdb::Options& options) {
  return {{rocksdb::kDefaultColumnFamilyName, options}, {kStream, options}};
}

}  // namespace

void check(const rocksdb::Status& status, const std::string& name) {
  if (status.ok()) return;
  const std::string what = fmt::format("{}: {}", name, status.ToString());
  // RocksDB has one code for all errors of files; only the text distinguishes these.
  if (what.find("Permission denied") != std::string::npos ||
      what.find("Read-only file system") != std::string::npos) {
    throw SinkError{SinkError::Kind::wrong,
                    what +
                        " (expected a folder whose files this user may read, and write when rows "
                        "are streamed to it)"};
  }
  if (status.IsCorruption() || status.IsPathNotFound()) {
    throw SinkError{
        SinkError::Kind::wrong,
        what + "; the database is damaged. Move it away: an empty folder is filled with all rows"};
  }
  if (status.IsInvalidArgument() || status.IsNotSupported()) {
    throw SinkError{SinkError::Kind::wrong, what};
  }
  if (what.find("lock hold by") != std::string::npos || what.find("LOCK:") != std::string::npos) {
    throw SinkError{SinkError::Kind::retry,
                    what + "; the database is already open: one process at a time can open it"};
  }
  throw SinkError{SinkError::Kind::retry, what};
}

bool Database::is_there(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / kCurrent, ignored);
}

Database::Database(const RocksdbOptions& given) {
  const std::filesystem::path& folder = given.folder;
  const rocksdb::Options options = options_with(given);
  if (is_there(folder)) {
    (void)is_ours(folder, options);
  } else {
    make_empty_folder(folder);
  }
  Handles handles;
  rocksdb::DB* opened = nullptr;
  check(rocksdb::DB::Open(options, folder.string(), families_with(options), &handles, &opened),
        "rocksdb:" + folder.string());
  db_.reset(opened);
  rows_ = handles[0];
  stream_ = handles[1];
  folder_ = folder;
  lock_ = open_to_read(folder / kLock);
}

// A lock file that vanished during the opening was removed with the database.
bool Database::is_still_there() const { return lock_ && is_at(lock_, folder_ / kLock); }

std::string Database::file_that_is_gone() const {
  const auto first_gone = [&](const std::string& only) -> std::string {
    std::vector<rocksdb::LiveFileMetaData> files;
    db_->GetLiveFilesMetaData(&files);
    for (const rocksdb::LiveFileMetaData& file : files) {
      if (!only.empty() && file.name != only) continue;
      if (!open_to_read(folder_ / std::filesystem::path{file.name}.relative_path())) {
        return file.name;
      }
    }
    return {};
  };
  const std::string gone = first_gone("");
  // A file that was compacted meanwhile is no longer listed.
  return gone.empty() ? gone : first_gone(gone);
}

// The writing process may remove files that this one is about to open. The folder then has another
// set of files, which a new attempt finds.
std::unique_ptr<Database> Database::look(const RocksdbOptions& given) {
  for (int looks = 1;; ++looks) {
    try {
      return look_once(given);
    } catch (const SinkError&) {
      if (looks == kLooks) throw;
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

std::unique_ptr<Database> Database::look_once(const RocksdbOptions& given) {
  const std::string folder = given.folder.string();
  rocksdb::Options options = options_with(given);
  options.create_if_missing = options.create_missing_column_families = false;
  options.max_open_files = -1;  // all stay open, and readable when they are removed
  if (!is_there(given.folder) || !is_ours(given.folder, options)) return nullptr;
  Handles handles;
  rocksdb::DB* opened = nullptr;
  check(rocksdb::DB::OpenAsSecondary(options, folder, folder, families_with(options), &handles,
                                     &opened),
        "rocksdb:" + folder);
  return std::unique_ptr<Database>{new Database{opened, handles}};
}

Database::~Database() {
  (void)db_->DestroyColumnFamilyHandle(rows_);
  (void)db_->DestroyColumnFamilyHandle(stream_);
  (void)db_->Close();  // written data is in the log
}

}  // namespace millrace::sink
