#pragma once

#include <memory>
#include <mutex>
#include <set>

#include "millrace/streamer/sink.hpp"
#include "sink/rocksdb/database.hpp"

namespace millrace::sink {

/**
 * @brief Writes rows to a RocksDB; docs/sinks.md describes its contents.
 *
 * A batch, its commit and its position are one atomic write. Written data survives the end of the
 * process, flushed data survives the end of the machine. Sinks of one folder and process share the
 * database, and no other process can open it for writing at the same time. `state` and `read` of a
 * sink without `begin` need no write permission and do not disturb a writer.
 *
 * If the folder is removed, the next write creates it again, and the commits are lost. During the
 * removal the remaining files look damaged; this is reported as damage only if it lasts.
 */
class RocksdbSink final : public Sink {
 public:
  explicit RocksdbSink(RocksdbOptions options);

  [[nodiscard]] std::string name() const override { return "rocksdb:" + options_.folder.string(); }
  [[nodiscard]] SinkState state() override;
  void begin(const StreamSchema& schema) override;
  void write(const StepBatch& batch, std::string_view position = {}) override;
  void flush() override;
  void read(const std::function<void(const RowRecord&)>& visit) override;
  void audit(std::uint32_t rank, std::uint64_t epoch) override;

 private:
  /** State that the sinks of one folder share. */
  struct Shared {
    std::mutex mutex;
    std::shared_ptr<Database> database;  ///< null: not open
    SinkState state;                     ///< state of the open database
    std::optional<StreamSchema> begun;   ///< schema for a database that is created again
    std::set<std::uint32_t> lost;        ///< ranks that lost commits; `audit` was not called yet
    bool is_failed = false;              ///< a write failed: the state must be read again
    int patience = 0;                    ///< openings that may still find damage after a removal
  };
  [[nodiscard]] static std::shared_ptr<Shared> shared(const RocksdbOptions& options);

  void open();
  template <typename Open>
  auto patiently(const Open& open);
  [[nodiscard]] std::shared_ptr<Database> to_read();
  [[nodiscard]] bool close_if_gone();
  void replace_state(SinkState state);
  void write_schema(const StreamSchema& schema);
  void put(const rocksdb::Status& status);
  [[nodiscard]] SinkState stored_state(const Database& database) const;
  void add_newer(rocksdb::WriteBatch& updates, const StepBatch& batch, std::size_t from,
                 std::size_t to) const;

  RocksdbOptions options_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace millrace::sink
