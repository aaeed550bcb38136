#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "millrace/streamer/sink.hpp"
#include "sink/deadline.hpp"
#include "sink/kafka/address.hpp"
#include "sink/kafka/producer.hpp"
#include "sink/kafka/topic/commits.hpp"
#include "sink/kafka/topic_reading.hpp"

namespace millrace::sink {

struct KafkaLimits {
  std::chrono::milliseconds requests_every{1000};  ///< interval between checks for requests
};

/**
 * @brief Writes rows to a topic of Kafka: `kafka://BROKERS/TOPIC`.
 *
 * A message is a record. Its key is the row: the key decides the partition, and a compacted topic
 * keeps the newest message of each key. When all in-sync replicas have acknowledged the rows of a
 * batch, its commit goes to every partition; `write` returns when that is acknowledged. A `write`
 * that throws may leave rows, or commits in some partitions; a repeat of the batch repairs that.
 *
 * The first call of `state` reads the whole topic, which costs time at the start; later calls read
 * only newer messages. `read` reads the whole topic twice, and keeps the newest version of each
 * row in memory.
 *
 * Partition 0 has every commit, and its order decides which of two trainers is overtaken: a batch
 * counts as written if no commit of a later epoch precedes its own there. `write` reads that
 * partition up to its own commit. An overtaken trainer requests a snapshot from the later one,
 * since a compacted topic keeps the row with the greatest offset, whichever trainer wrote it.
 *
 * TOPIC.requests has the numbers of snapshot requests, as text.
 */
class KafkaSink final : public Sink {
 public:
  /** @throws std::invalid_argument if the address names no topic */
  explicit KafkaSink(std::string_view spec, const KafkaLimits& limits = {});

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] SinkState state() override;
  void begin(const StreamSchema& schema) override;
  void write(const StepBatch& batch, std::string_view position = {}) override;
  /** Does nothing, because all in-sync replicas have everything. */
  void flush() override {}
  void read(const std::function<void(const RowRecord&)>& visit) override;
  [[nodiscard]] std::uint64_t snapshot_request() override;
  void audit(std::uint32_t rank, std::uint64_t epoch) override;
  void finish_by(std::chrono::steady_clock::time_point end) noexcept override {
    finish_by_ = end.time_since_epoch().count();
  }

 private:
  const KafkaClient& consumer();
  /**
   * Returns a producer: a new one if the last is broken. Messages that were sent must have settled
   * before the next call.
   */
  TopicProducer& producer();
  /**
   * Runs a function that reads the topic. A `lost` error becomes `retry`, and the topic is read
   * again.
   */
  template <typename Body>
  void look(Body&& body);
  void catch_up();
  void go_through(const TopicReading::Visit& visit);
  void send_schema(TopicProducer& to, const StreamSchema& schema);
  void send_rows(TopicProducer& to, const StepBatch& batch, std::vector<std::uint64_t>& rows);
  std::int64_t send_batch(const StepBatch& batch, std::string_view position);
  void watch();
  void watch_to(std::int64_t end);
  [[noreturn]] void give_way(std::uint64_t there, std::uint64_t epoch);
  void look_for_requests();

  const std::string name_;
  const KafkaAddress address_;
  const KafkaLimits limits_;
  Deadline::Shared finish_by_ = Deadline::kNone;
  std::mutex mutex_;
  std::optional<KafkaClient> consumer_;
  std::unique_ptr<TopicProducer> producer_;
  bool known_ = false;   ///< the topic was read once to its end
  bool failed_ = false;  ///< the last read failed
  TopicCommits commits_;
  /** Per partition: the offset after the messages that were read. */
  std::vector<std::int64_t> offsets_;
  std::unique_ptr<TopicReading> watched_;  ///< reads partition 0 from `offsets_` on
  bool wrote_ = false;  ///< a batch was sent since the last request for a snapshot
  std::optional<std::chrono::steady_clock::time_point> looked_;
  std::int64_t requests_offset_ = 0;
  std::uint64_t request_ = 0;
};

}  // namespace millrace::sink
