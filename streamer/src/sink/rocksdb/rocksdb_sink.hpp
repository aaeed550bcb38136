#pragma once

#include <memory>
#include <mutex>

#include "millrace/streamer/sink.hpp"
#include "sink/rocksdb/database.hpp"

namespace millrace::sink {

/**
 * @brief Rows in a RocksDB: see docs/sinks.md for what is where in it.
 *
 * A batch, its commit and position are one write: all of it is there, or nothing. What was written
 * survives the end of the process, what was flushed that of the machine. Sinks of one folder and
 * process share the database, which no other process can open to write to meanwhile. `state` and
 * `read` of a sink that nothing was begun in need no right to write, and disturb nobody who writes.
 * If the folder is taken away it is made anew with the next write, and has lost its commits. While
 * it is being taken away what is left of it looks damaged: that is reported as damage only if it
 * lasts.
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
  /** What sinks of one folder share. */
  struct Shared {
    std::mutex mutex;
    std::shared_ptr<Database> database;  ///< null: not open
    SinkState state;                     ///< of what is open
    std::optional<StreamSchema> begun;   ///< that one which is made anew is given
    bool is_failed = false;              ///< a write was: nothing can be taken for granted
    int patience = 0;  ///< so many openings may still find damage, after it was taken away
  };
  [[nodiscard]] static std::shared_ptr<Shared> shared(const RocksdbOptions& options);

  void open();
  template <typename Open>
  auto patiently(const Open& open);
  [[nodiscard]] std::shared_ptr<Database> to_read();
  [[nodiscard]] bool close_if_gone();
  void write_schema(const StreamSchema& schema);
  void put(const rocksdb::Status& status);
  [[nodiscard]] SinkState stored_state(const Database& database) const;
  void add_newer(rocksdb::WriteBatch& updates, const StepBatch& batch, std::size_t from,
                 std::size_t to) const;

  RocksdbOptions options_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace millrace::sink
