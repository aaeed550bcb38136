#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "millrace/streamer/sink.hpp"
#include "sink/redis/address.hpp"
#include "sink/redis/connection.hpp"

namespace millrace::sink {

/**
 * @brief Writes rows to a Redis server: `redis://HOST:PORT[/PREFIX]`, or another form of
 * RedisAddress.
 *
 * A row is the string `PREFIX:TABLE:ROW`, whose value is the row's record. The state of the stream
 * is the hash `PREFIX:stream`: fields `schema`, `mark:RANK` (records of commits) and `position`.
 * The server compares versions and commits, so any number of ranks may write, each through a sink
 * of its own. The key `PREFIX:snapshot` requests a snapshot when it is set to another number,
 * usually the time in milliseconds.
 *
 * A batch may be sent in parts. The last one has the commit, and is sent after all others have
 * arrived. `flush` does nothing: written data is in the server, and is as durable as the server's
 * own persistence. A server that lost data has older commits, or none: `lost`.
 *
 * Not for a Redis Cluster. If REDISCLI_AUTH is set, it is the password, like for redis-cli, unless
 * the address names another one.
 */
class RedisSink final : public Sink {
 public:
  /** @throws std::invalid_argument if the address names no server */
  explicit RedisSink(std::string_view spec, const RedisLimits& limits = {});

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] SinkState state() override;
  void begin(const StreamSchema& schema) override;
  void write(const StepBatch& batch, std::string_view position = {}) override;
  void flush() override {}
  /** Needs memory for the numbers of all rows. Rows written meanwhile may be visited. */
  void read(const std::function<void(const RowRecord&)>& visit) override;
  [[nodiscard]] std::uint64_t snapshot_request() override;
  void audit(std::uint32_t rank, std::uint64_t epoch) override;
  [[nodiscard]] bool list_rows(
      const std::function<void(std::uint32_t table, std::int64_t row)>& visit) override;
  void finish_by(std::chrono::steady_clock::time_point end) noexcept override {
    finish_by_ = end.time_since_epoch().count();
  }

 private:
  template <typename Body>
  auto talk(Body&& body);
  void ensure_connected();
  [[nodiscard]] SinkState fetch_state();
  [[nodiscard]] std::string key(std::string_view rest) const;

  const std::string name_;
  const RedisAddress address_;
  const RedisLimits limits_;
  Deadline::Shared finish_by_ = Deadline::kNone;
  std::mutex mutex_;
  std::optional<RedisConnection> connection_;
  std::string script_;                  ///< its digest on the server; empty: not loaded yet
  std::optional<StreamSchema> schema_;  ///< schema that `begin` or the server gave
};

}  // namespace millrace::sink
