#pragma once

#include <librdkafka/rdkafka.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/streamer/sink.hpp"
#include "sink/kafka/address.hpp"

namespace millrace::sink {

/** @brief What an error of a broker or of librdkafka means to whoever writes. */
[[nodiscard]] SinkError::Kind kind_of_kafka_error(rd_kafka_resp_err_t error) noexcept;

/** @brief A client of librdkafka, and what it last heard that was wrong. */
class KafkaClient {
 public:
  using Settings = std::vector<std::pair<std::string, std::string>>;
  using Delivered = void (*)(rd_kafka_t*, const rd_kafka_message_t*, void*);

  /** @param settings   ours, which those of the address go behind
   *  @param delivered  called from `poll` for each message that was, or could not be
   *  @throws SinkError (wrong) if there is no such setting */
  KafkaClient(rd_kafka_type_t type, const KafkaAddress& address, std::string name,
              const Settings& settings, Delivered delivered = nullptr);

  [[nodiscard]] rd_kafka_t* handle() const noexcept { return handle_.get(); }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /** @brief How long a broker is waited for when it is asked for something, in milliseconds: the
   *         setting socket.timeout.ms, or 5000. */
  [[nodiscard]] int patience() const noexcept { return patience_; }
  /** @brief Runs what has happened. */
  void poll(std::chrono::milliseconds at_most) const;

  /** @brief Partitions of a topic; 0: there is none, or none yet. @throws SinkError */
  [[nodiscard]] std::int32_t partitions(const std::string& topic) const;

  /** @brief With what brokers said, if it tells more than the error. */
  [[noreturn]] void fail(rd_kafka_resp_err_t error, std::string_view doing) const;
  [[noreturn]] void fail(SinkError::Kind kind, rd_kafka_resp_err_t error,
                         std::string_view doing) const;

 private:
  /** Callbacks come from any thread of the library. */
  struct Heard {
    std::mutex mutex;
    std::string words;
  };
  struct Destroy {
    void operator()(rd_kafka_t* handle) const noexcept { rd_kafka_destroy(handle); }
  };

  std::string name_;
  int patience_ = 5000;
  std::unique_ptr<Heard> heard_;
  std::unique_ptr<rd_kafka_t, Destroy> handle_;
};

struct DestroyTopic {
  void operator()(rd_kafka_topic_t* topic) const noexcept { rd_kafka_topic_destroy(topic); }
};
using KafkaTopic = std::unique_ptr<rd_kafka_topic_t, DestroyTopic>;

[[nodiscard]] KafkaTopic open_topic(const KafkaClient& client, const std::string& topic,
                                    rd_kafka_topic_conf_t* settings = nullptr);

}  // namespace millrace::sink
