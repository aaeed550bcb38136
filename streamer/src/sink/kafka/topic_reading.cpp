#include "sink/kafka/topic_reading.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/text/parse_number.hpp"

namespace millrace::sink {
namespace {

constexpr std::chrono::milliseconds kLongestSilence{15'000};
constexpr int kMostAtOnce = 4096;  ///< messages between two checks of the deadline

using Message = std::unique_ptr<rd_kafka_message_t, void (*)(rd_kafka_message_t*)>;

std::string_view header_of(const rd_kafka_message_t& message, const char* name) {
  rd_kafka_headers_t* headers = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR ||
      rd_kafka_header_get_last(headers, name, &value, &size) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return {};
  }
  return {static_cast<const char*>(value), size};
}

std::uint32_t rank_of(const rd_kafka_message_t& message) {
  std::string_view header = header_of(message, kRankHeader);
  return text::take_number<std::uint32_t>(header).value_or(0);
}

}  // namespace

KafkaClient make_consumer(const KafkaAddress& address, const std::string& name,
                          const Deadline::Shared& finish_by) {
  return {RD_KAFKA_CONSUMER,
          address,
          name,
          // A copy stores its own position with the rows; after a failure the broker's position
          // would differ.
          {{"enable.auto.offset.store", "false"},
           {"enable.auto.commit", "false"},
           {"allow.auto.create.topics", "false"},
           {"enable.partition.eof", "true"},
           {"auto.offset.reset", "error"},
           {"queued.max.messages.kbytes", "16384"},
           {"fetch.wait.max.ms", "100"}},
          finish_by};
}

std::vector<Extent> extents_of(const KafkaClient& consumer, const std::string& topic,
                               std::int32_t partitions) {
  struct PartitionExtents {
    std::vector<Extent> extents;
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
  };
  const auto question = [topic, partitions](rd_kafka_t* client, int patience) {
    PartitionExtents found;
    for (std::int32_t i = 0; i < partitions && found.error == RD_KAFKA_RESP_ERR_NO_ERROR; ++i) {
      Extent& extent = found.extents.emplace_back();
      found.error = rd_kafka_query_watermark_offsets(client, topic.c_str(), i, &extent.begin,
                                                     &extent.end, patience);
    }
    return found;
  };
  PartitionExtents found = consumer.ask(question, partitions);
  if (found.error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    const std::size_t last = found.extents.size() - 1;
    consumer.fail(found.error, fmt::format("the offsets of partition {} of {}", last, topic));
  }
  return std::move(found.extents);
}

TopicReading::TopicReading(const KafkaClient& consumer, const std::string& topic,
                           const std::vector<std::int64_t>& from)
    : consumer_(consumer),
      topic_(open_topic(consumer, topic)),
      queue_(rd_kafka_queue_new(consumer.handle())) {
  for (const std::int64_t offset : from) {
    start(static_cast<std::int32_t>(offsets_.size()), offset);
    offsets_.push_back(offset);
  }
}

TopicReading::~TopicReading() {
  for (std::size_t i = 0; i < offsets_.size(); ++i) {
    rd_kafka_consume_stop(topic_.get(), static_cast<std::int32_t>(i));
  }
}

void TopicReading::start(std::int32_t partition, std::int64_t offset) {
  if (rd_kafka_consume_start_queue(topic_.get(), partition, offset, queue_.get()) != 0) {
    consumer_.fail(rd_kafka_last_error(), fmt::format("reading partition {}", partition));
  }
}

void TopicReading::add_partition() {
  start(static_cast<std::int32_t>(offsets_.size()), 0);
  offsets_.push_back(0);
}

void TopicReading::take(const rd_kafka_message_t& message, const Visit& visit) {
  const auto part = static_cast<std::size_t>(message.partition);
  switch (message.err) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
      break;
    case RD_KAFKA_RESP_ERR__PARTITION_EOF:
      // The last offsets of a partition may have no message, for instance after compaction.
      if (part < offsets_.size()) offsets_[part] = std::max(offsets_[part], message.offset);
      return;
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
      consumer_.fail(SinkError::Kind::lost, message.err,
                     fmt::format("what was to be read of partition {} is gone", part));
    default:
      consumer_.fail(message.err, fmt::format("reading partition {}", part));
  }
  offsets_[part] = message.offset + 1;
  visit({.part = message.partition,
         .offset = message.offset,
         .rank = rank_of(message),
         .record = std::as_bytes(std::span{static_cast<const char*>(message.payload), message.len}),
         .position = header_of(message, kPositionHeader)});
}

bool TopicReading::read_some(std::chrono::milliseconds patience, const Visit& visit) {
  consumer_.poll(std::chrono::milliseconds{0});
  int wait = static_cast<int>(patience.count());
  bool any = false;
  for (int left = kMostAtOnce; left > 0; --left, wait = 0) {
    const Message message{rd_kafka_consume_queue(queue_.get(), wait), rd_kafka_message_destroy};
    if (message == nullptr) return any;
    take(*message, visit);
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) return any;
    any = true;
  }
  return any;
}

bool TopicReading::reached(const std::vector<Extent>& ends) const {
  for (std::size_t i = 0; i < ends.size(); ++i) {
    // An empty partition has no message that would bring its offset to the end.
    if (ends[i].begin < ends[i].end && offsets_[i] < ends[i].end) return false;
  }
  return true;
}

void TopicReading::read_to(const std::vector<Extent>& ends, const Visit& visit) {
  Silence silence{consumer_};
  while (!reached(ends)) silence.heard(read_some(std::chrono::milliseconds{100}, visit));
}

void Silence::heard(bool something) {
  consumer_.check_time();
  const auto now = std::chrono::steady_clock::now();
  if (something) since_ = now;
  if (now - since_ > kLongestSilence) {
    consumer_.fail(RD_KAFKA_RESP_ERR__TIMED_OUT, "the topic has messages, but none arrives");
  }
}

}  // namespace millrace::sink
