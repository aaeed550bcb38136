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

/** @brief Offsets of what is in a partition. */
struct Extent {
  std::int64_t begin = 0, end = 0;
};

/** @brief A consumer that is of no group and stores no offsets. */
[[nodiscard]] KafkaClient make_consumer(const KafkaAddress& address, const std::string& name,
                                        const Deadline::Shared& finish_by = kNeverEnds);

/** @brief What is in each of the first partitions now. @throws SinkError */
[[nodiscard]] std::vector<Extent> extents_of(const KafkaClient& consumer, const std::string& topic,
                                             std::int32_t partitions);

/** @brief How long nothing has come of what is known to be there. */
class Silence {
 public:
  explicit Silence(const KafkaClient& consumer) : consumer_(consumer) {}
  /** @throws SinkError (retry) if it has been for too long, or there is no more time */
  void heard(bool something);

 private:
  const KafkaClient& consumer_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

/** @brief Reads partitions of a topic while it lives, all of them mixed. */
class TopicReading {
 public:
  using Visit = std::function<void(const TopicMessage&)>;

  /** @param consumer  outlives this, and reads this topic only here
   *  @param from      an offset of each partition, from the first one on */
  TopicReading(const KafkaClient& consumer, const std::string& topic,
               const std::vector<std::int64_t>& from);
  ~TopicReading();
  TopicReading(const TopicReading&) = delete;
  TopicReading& operator=(const TopicReading&) = delete;

  /** @brief Behind what was read. */
  [[nodiscard]] const std::vector<std::int64_t>& offsets() const noexcept { return offsets_; }
  /** @brief Reads another partition as well, from its beginning. */
  void add_partition();

  /**
   * @brief Visits some messages, at least one if any comes in time, and some thousands at most.
   * @return whether one came
   * @throws SinkError: lost if what was to be read is gone; what `visit` throws, the messages
   * behind being lost to this reading
   */
  bool read_some(std::chrono::milliseconds patience, const Visit& visit);
  /** @brief Reads up to these offsets.
   *  @throws SinkError (retry) if for long nothing comes, or there is no more time */
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
