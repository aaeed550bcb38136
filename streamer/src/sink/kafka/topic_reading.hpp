#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sink/kafka/client.hpp"
#include "sink/kafka/topic/message.hpp"

namespace millrace::sink {

/** @brief The first offset of a partition's messages, and the offset after the last one. */
struct Extent {
  std::int64_t begin = 0, end = 0;
};

/** @brief Makes a consumer without a group, which stores no offsets. */
[[nodiscard]] KafkaClient make_consumer(const KafkaAddress& address, const std::string& name,
                                        const Deadline::Shared& finish_by = kNeverEnds);

/** @return the current extents of the first `partitions` partitions. @throws SinkError */
[[nodiscard]] std::vector<Extent> extents_of(const KafkaClient& consumer, const std::string& topic,
                                             std::int32_t partitions);

/** @brief Measures how long messages that are known to exist have not arrived. */
class Silence {
 public:
  explicit Silence(const KafkaClient& consumer) : consumer_(consumer) {}
  /** @throws SinkError (retry) if that is too long, or after the deadline */
  void heard(bool something);

 private:
  const KafkaClient& consumer_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

/** @brief Reads partitions of a topic. Messages of different partitions arrive in any order. */
class TopicReading {
 public:
  using Visit = std::function<void(const TopicMessage&)>;

  /** @param consumer  outlives this; only this object reads the topic with it
   *  @param from      the first offset of each partition, in order */
  TopicReading(const KafkaClient& consumer, const std::string& topic,
               const std::vector<std::int64_t>& from);
  ~TopicReading();
  TopicReading(const TopicReading&) = delete;
  TopicReading& operator=(const TopicReading&) = delete;

  /** @brief Returns the offsets after the messages that were read. */
  [[nodiscard]] const std::vector<std::int64_t>& offsets() const noexcept { return offsets_; }
  /** @brief Also reads another partition, from its beginning. */
  void add_partition();

  /**
   * @brief Visits some messages: at least one if any arrives in time, some thousands at most.
   * @return true if one arrived
   * @throws SinkError: lost if the messages at this place no longer exist. Also what `visit`
   * throws; this reading must not be used after that
   */
  bool read_some(std::chrono::milliseconds patience, const Visit& visit);
  /**
   * @brief Reads up to these offsets.
   * @throws SinkError (retry) if nothing arrives for too long, or after the deadline
   */
  void read_to(const std::vector<Extent>& ends, const Visit& visit);

 private:
  struct DestroyQueue {
    void operator()(rd_kafka_queue_t* queue) const noexcept { rd_kafka_queue_destroy(queue); }
  };

  void start(std::int32_t partition, std::int64_t offset);
  void take(const rd_kafka_message_t& message, const Visit& visit);
  [[nodiscard]] bool reached(const std::vector<Extent>& ends) const;

  const KafkaClient& consumer_;
  KafkaTopic topic_;
  std::unique_ptr<rd_kafka_queue_t, DestroyQueue> queue_;
  std::vector<std::int64_t> offsets_;
};

}  // namespace millrace::sink
