#include "sink/kafka/producer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>
#include <utility>

#include "sink/kafka/topic/message.hpp"

namespace millrace::sink {
namespace {

constexpr std::chrono::milliseconds kPollTime{50};

struct DestroyHeaders {
  void operator()(rd_kafka_headers_t* headers) const noexcept { rd_kafka_headers_destroy(headers); }
};
using Headers = std::unique_ptr<rd_kafka_headers_t, DestroyHeaders>;

Headers headers_of(const Produced& message) {
  if (message.rank == 0 && message.position.empty()) return nullptr;
  Headers headers{rd_kafka_headers_new(2)};
  const auto add = [&](const char* name, std::string_view value) {
    rd_kafka_header_add(headers.get(), name, -1, value.data(), static_cast<ssize_t>(value.size()));
  };
  if (message.rank != 0) add(kRankHeader, std::to_string(message.rank));
  if (!message.position.empty()) add(kPositionHeader, message.position);
  return headers;
}

}  // namespace

TopicProducer::TopicProducer(const KafkaAddress& address, const std::string& topic,
                             const std::string& name, const Deadline::Shared& finish_by)
    : client_(RD_KAFKA_PRODUCER, address, name,
              {{"enable.idempotence", "true"},
               {"queue.buffering.max.kbytes", "65536"},
               {"linger.ms", "2"},
               {"message.timeout.ms", "10000"}},
              finish_by, delivered),
      partitions_(client_.partitions(topic)) {
  for (int tries = 0; partitions_ == 0 && tries < 10; ++tries) {  // the query may create the topic
    client_.check_time();
    std::this_thread::sleep_for(2 * kPollTime);
    partitions_ = client_.partitions(topic);
  }
  if (partitions_ == 0) {
    throw SinkError{SinkError::Kind::retry,
                    fmt::format("{}: the topic {} does not exist (yet)", name, topic)};
  }
  topic_ = open_topic(client_, topic);
}

bool TopicProducer::broken() const noexcept {
  if (left_) return true;
  std::array<char, 8> ignored{};
  return rd_kafka_fatal_error(client_.handle(), ignored.data(), ignored.size()) !=
         RD_KAFKA_RESP_ERR_NO_ERROR;
}

// librdkafka reports a message as written if a later message of its partition was: a broker would
// have refused the later one because of the gap. But a broker does that only if the partition
// already has messages of this producer. The first messages of a new producer may overtake each
// other when the leader changes, and are then lost. A message that a broker acknowledged itself has
// an offset.
void TopicProducer::delivered(rd_kafka_t*, const rd_kafka_message_t* message, void*) {
  auto& delivery = *static_cast<Delivery*>(message->_private);
  ++delivery.settled;
  rd_kafka_resp_err_t error = message->err;
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
    if (message->partition == 0) delivery.end = std::max(delivery.end, message->offset + 1);
    if (message->offset >= 0) return;
    error = RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
  }
  ++delivery.failed;
  delivery.error = error;
}

rd_kafka_resp_err_t TopicProducer::try_send(const Produced& message) {
  Headers headers = headers_of(message);
  auto* const value = const_cast<std::byte*>(message.record.data());  // librdkafka copies it
  const rd_kafka_resp_err_t error = rd_kafka_producev(
      client_.handle(), RD_KAFKA_V_RKT(topic_.get()), RD_KAFKA_V_PARTITION(message.part),
      RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
      RD_KAFKA_V_KEY(message.key.data(), message.key.size()),
      RD_KAFKA_V_VALUE(value, message.record.size()), RD_KAFKA_V_OPAQUE(&delivery_),
      RD_KAFKA_V_HEADERS(headers.get()), RD_KAFKA_V_END);
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) (void)headers.release();  // the message owns them now
  return error;
}

void TopicProducer::send(const Produced& message) {
  rd_kafka_resp_err_t error = try_send(message);
  // The client keeps a limited number of bytes until brokers have acknowledged them.
  for (; error == RD_KAFKA_RESP_ERR__QUEUE_FULL; error = try_send(message)) {
    leave_if_late();
    client_.poll(kPollTime);
  }
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    await_all();
    delivery_ = {};
    client_.fail(broken() ? SinkError::Kind::retry : kind_of_kafka_error(error), error,
                 "a message cannot be sent");
  }
  ++delivery_.sent;
  // Only poll handles acknowledgements; without it they pile up.
  if (delivery_.sent % 1024 == 0) client_.poll(std::chrono::milliseconds{0});
}

/** Messages in flight may still reach brokers, after messages of the next producer. */
void TopicProducer::leave_if_late() {
  if (!client_.out_of_time()) return;
  left_ = true;
  client_.check_time();
}

void TopicProducer::await_all() {
  while (delivery_.settled < delivery_.sent) {
    leave_if_late();
    rd_kafka_flush(client_.handle(), static_cast<int>(kPollTime.count()));
  }
}

std::int64_t TopicProducer::settle() {
  await_all();
  const Delivery all = std::exchange(delivery_, {});
  if (all.failed == 0) return all.end;
  client_.fail(broken() ? SinkError::Kind::retry : kind_of_kafka_error(all.error), all.error,
               fmt::format("{} of {} messages were not acknowledged", all.failed, all.sent));
}

}  // namespace millrace::sink
