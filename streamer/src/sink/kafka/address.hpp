#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::sink {

/**
 * @brief A parsed `kafka://BROKERS/TOPIC[?SETTING=VALUE&...]`. Settings are librdkafka's, for
 *        instance security.protocol. Settings that delivery depends on are refused.
 */
struct KafkaAddress {
  std::string brokers;  ///< HOST[:PORT], several separated by ','
  std::string topic;
  std::vector<std::pair<std::string, std::string>> settings;

  /** @brief The topic in which appliers request snapshots. */
  [[nodiscard]] std::string requests() const { return topic + ".requests"; }
};

/** @throws std::invalid_argument that says what is wrong with it */
[[nodiscard]] KafkaAddress parse_kafka_address(std::string_view spec);

}  // namespace millrace::sink
