#pragma once

#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sink/file/disk.hpp"

namespace millrace::sink {

/** @throws SinkError that describes the status, unless it is ok */
void check(const rocksdb::Status& status, const std::string& name);

struct RocksdbOptions {
  std::filesystem::path folder;
  rocksdb::Env* env = rocksdb::Env::Default();
  std::size_t write_buffer_bytes = std::size_t{64}
                                   << 20;  ///< rows in memory before they are sorted
};

/** @brief An open database: one column family has the rows, another one the state of the stream. */
class Database {
 public:
  /** @brief Opens it, and creates it if it does not exist. @throws SinkError */
  explicit Database(const RocksdbOptions& options);
  /**
   * @brief Opens the present state for reading, even while another process writes to it. Takes no
   * lock, and writes nothing.
   * @return null if the folder has no database of this library
   * @throws SinkError
   */
  [[nodiscard]] static std::unique_ptr<Database> look(const RocksdbOptions& options);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  [[nodiscard]] rocksdb::DB& operator*() const noexcept { return *db_; }
  [[nodiscard]] rocksdb::DB* operator->() const noexcept { return db_.get(); }
  [[nodiscard]] rocksdb::ColumnFamilyHandle* rows() const noexcept { return rows_; }
  [[nodiscard]] rocksdb::ColumnFamilyHandle* stream() const noexcept { return stream_; }

  /** @return true if the folder has a database */
  [[nodiscard]] static bool is_there(const std::filesystem::path& folder);
  /**
   * @return true if this database, which is open for writing, is still the one in the folder: it
   *         was not removed. @throws SinkError
   */
  [[nodiscard]] bool is_still_there() const;
  /** @return a file of rows that was removed; empty: none. @throws SinkError */
  [[nodiscard]] std::string file_that_is_gone() const;

 private:
  using Handles = std::vector<rocksdb::ColumnFamilyHandle*>;
  Database(rocksdb::DB* db, const Handles& handles)
      : db_(db), rows_(handles[0]), stream_(handles[1]) {}
  [[nodiscard]] static std::unique_ptr<Database> look_once(const RocksdbOptions& options);

  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::ColumnFamilyHandle* rows_ = nullptr;
  rocksdb::ColumnFamilyHandle* stream_ = nullptr;
  std::filesystem::path folder_;
  File lock_;  ///< the file that RocksDB locks, to compare its identity
};

}  // namespace millrace::sink
