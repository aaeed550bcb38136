#pragma once

#include <librdkafka/rdkafka.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/streamer/sink.hpp"
#include "sink/deadline.hpp"
#include "sink/kafka/address.hpp"

namespace millrace::sink {

/** @brief Translates an error of a broker or of librdkafka into an error of a sink. */
[[nodiscard]] SinkError::Kind kind_of_kafka_error(rd_kafka_resp_err_t error) noexcept;

/**
 * @brief A client of librdkafka, and the last error that it reported. No call lasts longer than
 * `finish_by` allows. One thread at a time.
 */
class KafkaClient {
 public:
  using Settings = std::vector<std::pair<std::string, std::string>>;
  using Delivered = void (*)(rd_kafka_t*, const rd_kafka_message_t*, void*);

  /**
   * @param settings   settings of this library; those of the address are added after them
   * @param finish_by  end of all calls; outlives this
   * @param delivered  called from `poll` for each message, delivered or failed
   * @throws SinkError (wrong) for an unknown setting
   */
  KafkaClient(rd_kafka_type_t type, const KafkaAddress& address, std::string name,
              const Settings& settings, const Deadline::Shared& finish_by,
              Delivered delivered = nullptr);

  [[nodiscard]] rd_kafka_t* handle() const noexcept { return handle_.get(); }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] bool out_of_time() const { return Deadline::passed(finish_by_); }
  /** @throws SinkError (retry) if calls must end now */
  void check_time() const;
  /** @brief Runs the callbacks of events that have happened. */
  void poll(std::chrono::milliseconds at_most) const;

  /** @return number of partitions of a topic; 0: it does not exist (yet). @throws SinkError */
  [[nodiscard]] std::int32_t partitions(const std::string& topic) const;

  /**
   * @brief Runs a blocking call of librdkafka that asks a broker something.
   *
   * The call runs in a thread of its own. After the deadline the thread continues until the call
   * ends, so `question` must own everything that it uses. While such a thread runs, no other
   * question is asked.
   * @param question  gets the client, and the milliseconds to wait for a broker: the setting
   *     socket.timeout.ms, or 5000. Some calls wait longer nevertheless
   * @param requests  number of successive requests that it makes
   * @throws SinkError (retry) after the deadline, or if no broker answers
   */
  template <typename Question>
  [[nodiscard]] auto ask(Question question, int requests = 1) const {
    using Answer = std::invoke_result_t<Question&, rd_kafka_t*, int>;
    const Deadline deadline{requests * std::chrono::milliseconds{patience_} + kMore, finish_by_};
    await(under_way_, deadline);
    std::packaged_task<Answer()> task{
        [handle = handle_, patience = patience_, question = std::move(question)]() mutable {
          return question(handle.get(), patience);
        }};
    std::future<Answer> answer = task.get_future();
    std::packaged_task<void()> whole{std::move(task)};
    under_way_ = whole.get_future();
    detach(std::move(whole));
    await(under_way_, deadline);
    return answer.get();
  }

  /** @brief Throws the error, together with the brokers' last message if there is one. */
  [[noreturn]] void fail(rd_kafka_resp_err_t error, std::string_view doing) const;
  [[noreturn]] void fail(SinkError::Kind kind, rd_kafka_resp_err_t error,
                         std::string_view doing) const;

 private:
  /** Callbacks come from any thread of the library. */
  struct Heard {
    std::mutex mutex;
    std::string words;
  };
  /** For librdkafka to report its own timeout. */
  static constexpr std::chrono::milliseconds kMore{500};

  void detach(std::packaged_task<void()> task) const;
  void await(const std::future<void>& answered, const Deadline& deadline) const;

  std::string name_;
  const Deadline::Shared& finish_by_;
  int patience_ = 5000;
  std::shared_ptr<Heard> heard_;
  std::shared_ptr<rd_kafka_t> handle_;  ///< keeps `heard_` alive until the client is destroyed
  mutable std::future<void> under_way_;
};

struct DestroyTopic {
  void operator()(rd_kafka_topic_t* topic) const noexcept { rd_kafka_topic_destroy(topic); }
};
using KafkaTopic = std::unique_ptr<rd_kafka_topic_t, DestroyTopic>;

[[nodiscard]] KafkaTopic open_topic(const KafkaClient& client, const std::string& topic,
                                    rd_kafka_topic_conf_t* settings = nullptr);

}  // namespace millrace::sink
