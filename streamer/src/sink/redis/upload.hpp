#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/streamer/step_batch.hpp"
#include "sink/redis/connection.hpp"

namespace millrace::sink {

/** @brief The destination of a batch. */
struct RedisTarget {
  RedisConnection& connection;
  const std::string& script;  ///< name of kWriteScript on the server
  const std::string& prefix;
  const std::string& name;
  const RedisLimits& limits;
};

/**
 * @brief Writes a batch by calls of the script: several in flight, and the one with the commit
 * alone.
 */
class RedisUpload {
 public:
  RedisUpload(const RedisTarget& target, const StreamSchema& schema, const StepBatch& batch,
              std::string_view position);

  /** @throws SinkError. Nothing is in flight when it returns. */
  void run();

 private:
  struct RowRange {
    std::size_t begin = 0, end = 0;  ///< indices of the rows
    bool last = false;
  };

  [[nodiscard]] RowRange range_from(std::size_t begin) const;
  [[nodiscard]] std::string key_of(std::size_t row) const;
  [[nodiscard]] std::string_view role_of(const RowRange& part) const;
  void send(const RowRange& part);
  void settle();

  RedisTarget target_;
  const StreamSchema& schema_;
  const StepBatch& batch_;
  std::string_view position_;
  std::string rank_, after_, version_, commit_, schema_record_;
  std::size_t in_flight_ = 0;
  bool repeat_ = false;
  std::string newest_;  ///< the server's newest version, if the batch cannot continue it
};

}  // namespace millrace::sink
