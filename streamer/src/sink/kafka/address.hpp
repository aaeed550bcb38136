#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::sink {

/**
 * @brief What `kafka://BROKERS/TOPIC[?SETTING=VALUE&...]` says; settings are those of librdkafka:
 *        security.protocol, say. Those that delivery rests on are ours, and refused.
 */
struct KafkaAddress {
  std::string brokers;  ///< HOST[:PORT], several with ',' between them
  std::string topic;
  std::vector<std::pair<std::string, std::string>> settings;

  /** @brief Where those who apply ask for a snapshot. */
  [[nodiscard]] std::string requests() const { return topic + ".requests"; }
};

/** @throws std::invalid_argument that says what is wrong with it */
[[nodiscard]] KafkaAddress parse_kafka_address(std::string_view spec);

}  // namespace millrace::sink
