#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sink/kafka/client.hpp"

namespace millrace::sink {

/** @brief A message to write. */
struct Produced {
  std::int32_t part = 0;
  std::string_view key;
  std::span<const std::byte> record;
  std::uint32_t rank = 0;
  std::string_view position{};
};

/**
 * @brief Writes to one topic: idempotent, acknowledged by all in-sync replicas, in order within a
 * partition. It can be used after an exception, unless it is `broken`: messages were still in
 * flight when calls had to end, or librdkafka reported a fatal error.
 */
class TopicProducer {
 public:
  /** @throws SinkError if the topic does not exist, or no broker answers */
  TopicProducer(const KafkaAddress& address, const std::string& topic, const std::string& name,
                const Deadline::Shared& finish_by = kNeverEnds);

  TopicProducer(const TopicProducer&) = delete;
  TopicProducer& operator=(const TopicProducer&) = delete;

  [[nodiscard]] std::int32_t partitions() const noexcept { return partitions_; }
  /** @brief Queues a copy; waits while the queue is full. @throws SinkError */
  void send(const Produced& message);
  /**
   * @brief Waits until all sent messages are acknowledged.
   * @return the offset after the last message in partition 0; 0: none was sent there
   * @throws SinkError if any message was not acknowledged
   */
  std::int64_t settle();
  /** @return true if only a new producer can help */
  [[nodiscard]] bool broken() const noexcept;

 private:
  /** Results of the messages since the last `settle`. */
  struct Delivery {
    std::size_t sent = 0, settled = 0, failed = 0;
    std::int64_t end = 0;  ///< in partition 0: the offset after its last message
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
  };

  static void delivered(rd_kafka_t*, const rd_kafka_message_t* message, void*);
  [[nodiscard]] rd_kafka_resp_err_t try_send(const Produced& message);
  void leave_if_late();
  void await_all();

  KafkaClient client_;
  KafkaTopic topic_;
  std::int32_t partitions_ = 0;
  Delivery delivery_;
  bool left_ = false;  ///< calls had to end with messages in flight
};

}  // namespace millrace::sink
