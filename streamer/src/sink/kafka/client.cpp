#include "sink/kafka/client.hpp"

#include <fmt/format.h>

#include <array>
#include <system_error>
#include <thread>

#include "millrace/text/parse_number.hpp"

namespace millrace::sink {
namespace {

struct DestroySettings {
  void operator()(rd_kafka_conf_t* settings) const noexcept { rd_kafka_conf_destroy(settings); }
};
using OwnedSettings = std::unique_ptr<rd_kafka_conf_t, DestroySettings>;

void say_nothing(const rd_kafka_t*, int, const char*, const char*) {}

void set(rd_kafka_conf_t* settings, const std::string& key, const std::string& value,
         const std::string& name) {
  std::array<char, 512> why{};
  if (rd_kafka_conf_set(settings, key.c_str(), value.c_str(), why.data(), why.size()) !=
      RD_KAFKA_CONF_OK) {
    throw SinkError{SinkError::Kind::wrong, fmt::format("{}: {}", name, why.data())};
  }
}

int milliseconds(std::chrono::milliseconds time) { return static_cast<int>(time.count()); }

/** Returns the value as librdkafka parsed it: it also accepts "0x64" and "100 ". */
int number(const rd_kafka_conf_t* settings, const char* key) {
  std::array<char, 32> value{};
  std::size_t size = value.size();
  rd_kafka_conf_get(settings, key, value.data(), &size);
  std::string_view understood{value.data(), value.size()};
  return text::take_number<int>(understood).value_or(0);
}

}  // namespace

SinkError::Kind kind_of_kafka_error(rd_kafka_resp_err_t error) noexcept {
  switch (error) {
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
    case RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT:
    case RD_KAFKA_RESP_ERR__AUTHENTICATION:
    case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE:
    case RD_KAFKA_RESP_ERR__INVALID_ARG:
      return SinkError::Kind::wrong;
    default:
      return SinkError::Kind::retry;
  }
}

KafkaClient::KafkaClient(rd_kafka_type_t type, const KafkaAddress& address, std::string name,
                         const Settings& settings, const Deadline::Shared& finish_by,
                         Delivered delivered)
    : name_(std::move(name)), finish_by_(finish_by), heard_(std::make_shared<Heard>()) {
  OwnedSettings given{rd_kafka_conf_new()};
  set(given.get(), "bootstrap.servers", address.brokers, name_);
  for (const auto& [key, value] : settings) set(given.get(), key, value, name_);
  for (const auto& [key, value] : address.settings) {
    set(given.get(), key, value, name_);
    if (key == "socket.timeout.ms") patience_ = number(given.get(), key.c_str());
  }
  rd_kafka_conf_set_opaque(given.get(), heard_.get());
  rd_kafka_conf_set_log_cb(given.get(), say_nothing);
  rd_kafka_conf_set_dr_msg_cb(given.get(), delivered);
  rd_kafka_conf_set_error_cb(given.get(), [](rd_kafka_t*, int, const char* words, void* opaque) {
    auto& heard = *static_cast<Heard*>(opaque);
    const std::lock_guard lock{heard.mutex};
    heard.words = words;
  });
  std::array<char, 512> why{};
  rd_kafka_t* const made = rd_kafka_new(type, given.get(), why.data(), why.size());
  if (made == nullptr) {
    throw SinkError{SinkError::Kind::wrong, fmt::format("{}: {}", name_, why.data())};
  }
  (void)given.release();  // the client owns it now
  handle_ = {made, [heard = heard_](rd_kafka_t* handle) { rd_kafka_destroy(handle); }};
}

void KafkaClient::check_time() const {
  if (!out_of_time()) return;
  throw SinkError{SinkError::Kind::retry, fmt::format("{}: the deadline has passed", name_)};
}

void KafkaClient::detach(std::packaged_task<void()> task) const {
  try {
    std::thread{std::move(task)}.detach();
  } catch (const std::system_error& error) {
    throw SinkError{SinkError::Kind::retry,
                    fmt::format("{}: no thread can be started: {}", name_, error.code().message())};
  }
}

void KafkaClient::await(const std::future<void>& answered, const Deadline& deadline) const {
  while (answered.valid() && answered.wait_for(deadline.slice()) != std::future_status::ready) {
    check_time();
    if (deadline.passed()) fail(RD_KAFKA_RESP_ERR__TIMED_OUT, "no broker answers");
  }
}

void KafkaClient::poll(std::chrono::milliseconds at_most) const {
  rd_kafka_poll(handle(), milliseconds(at_most));
}

void KafkaClient::fail(rd_kafka_resp_err_t error, std::string_view doing) const {
  fail(kind_of_kafka_error(error), error, doing);
}

void KafkaClient::fail(SinkError::Kind kind, rd_kafka_resp_err_t error,
                       std::string_view doing) const {
  poll(std::chrono::milliseconds{0});
  std::string text = fmt::format("{}: {}: {}", name_, doing, rd_kafka_err2str(error));
  const std::lock_guard lock{heard_->mutex};
  if (!heard_->words.empty()) text += fmt::format(" ({})", heard_->words);
  throw SinkError{kind, text};
}

std::int32_t KafkaClient::partitions(const std::string& topic) const {
  struct PartitionCount {
    rd_kafka_resp_err_t asking = RD_KAFKA_RESP_ERR_NO_ERROR, topic = RD_KAFKA_RESP_ERR_NO_ERROR;
    std::int32_t partitions = 0;
  };
  const PartitionCount found = ask([topic](rd_kafka_t* client, int patience) {
    PartitionCount found;
    const KafkaTopic one{rd_kafka_topic_new(client, topic.c_str(), nullptr)};
    if (one == nullptr) {
      found.topic = rd_kafka_last_error();
      return found;
    }
    const rd_kafka_metadata_t* metadata = nullptr;
    found.asking = rd_kafka_metadata(client, 0, one.get(), &metadata, patience);
    if (found.asking != RD_KAFKA_RESP_ERR_NO_ERROR) return found;
    if (metadata->topic_cnt == 1) {
      found.topic = metadata->topics[0].err;
      found.partitions = metadata->topics[0].partition_cnt;
    }
    rd_kafka_metadata_destroy(metadata);
    return found;
  });
  if (found.asking != RD_KAFKA_RESP_ERR_NO_ERROR) {
    fail(found.asking, "no broker knows the topic");
  }
  switch (found.topic) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
      return found.partitions;
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE:  // it is being created
      return 0;
    default:
      fail(found.topic, fmt::format("topic {}", topic));
  }
}

KafkaTopic open_topic(const KafkaClient& client, const std::string& topic,
                      rd_kafka_topic_conf_t* settings) {
  KafkaTopic opened{rd_kafka_topic_new(client.handle(), topic.c_str(), settings)};
  if (opened == nullptr) client.fail(rd_kafka_last_error(), fmt::format("topic {}", topic));
  return opened;
}

}  // namespace millrace::sink
