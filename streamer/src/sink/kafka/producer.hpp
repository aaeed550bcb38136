#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sink/kafka/client.hpp"

namespace millrace::sink {

/** @brief What a producer is given. */
struct Produced {
  std::int32_t part = 0;
  std::string_view key;
  std::span<const std::byte> record;
  std::uint32_t rank = 0;
  std::string_view position{};
};

/**
 * @brief Writes to one topic: idempotent, acknowledged by all replicas in sync, in order within a
 *        partition. Whatever throws leaves it of use, unless `broken`; what is still under way when
 *        calls have to end breaks it.
 */
class TopicProducer {
 public:
  /** @throws SinkError if there is no such topic, or no broker */
  TopicProducer(const KafkaAddress& address, const std::string& topic, const std::string& name,
                const Deadline::Shared& finish_by = kNeverEnds);

  TopicProducer(const TopicProducer&) = delete;
  TopicProducer& operator=(const TopicProducer&) = delete;

  [[nodiscard]] std::int32_t partitions() const noexcept { return partitions_; }
  /** @brief Queues a copy, which waits where the queue is full. @throws SinkError */
  void send(const Produced& message);
  /**
   * @brief Waits until all that was sent is acknowledged.
   * @return the offset behind what was sent to partition 0; 0: nothing was
   * @throws SinkError if anything was not
   */
  std::int64_t settle();
  /** @brief Whether only another producer can help. */
  [[nodiscard]] bool broken() const noexcept;

 private:
  /** Of messages of one `settle`. */
  struct Delivery {
    std::size_t sent = 0, settled = 0, failed = 0;
    std::int64_t end = 0;  ///< in partition 0
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
  bool left_ = false;  ///< with messages under way
};

}  // namespace millrace::sink
