#include "sink/kafka/address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace millrace::sink {
namespace {

constexpr std::string_view kScheme = "kafka://";
constexpr std::array<std::string_view, 7> kOurs{
    "acks",     "bootstrap.servers",    "enable.auto.offset.store", "enable.idempotence",
    "group.id", "metadata.broker.list", "request.required.acks"};

[[noreturn]] void refuse(std::string_view spec, const std::string& why) {
  throw std::invalid_argument(fmt::format(
      "'{}': {}; kafka://HOST:PORT,.../TOPIC or with ?SETTING=VALUE&... behind it", spec, why));
}

bool of_topic(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

void read_settings(std::string_view spec, std::string_view text, KafkaAddress& address) {
  while (!text.empty()) {
    const std::string_view setting = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(setting.size() + 1, text.size()));
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      refuse(spec, fmt::format("'{}' is no SETTING=VALUE", setting));
    }
    const std::string_view name = setting.substr(0, equals);
    if (std::ranges::find(kOurs, name) != kOurs.end()) {
      refuse(spec, fmt::format("{} is not for users to set", name));
    }
    address.settings.emplace_back(name, setting.substr(equals + 1));
  }
}

}  // namespace

KafkaAddress parse_kafka_address(std::string_view spec) {
  if (!spec.starts_with(kScheme)) refuse(spec, "it does not begin with kafka://");
  std::string_view rest = spec.substr(kScheme.size());
  KafkaAddress address;
  if (const std::size_t question = rest.find('?'); question != std::string_view::npos) {
    read_settings(spec, rest.substr(question + 1), address);
    rest = rest.substr(0, question);
  }
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos) refuse(spec, "there is no topic");
  address.brokers = rest.substr(0, slash);
  address.topic = rest.substr(slash + 1);
  if (address.brokers.empty()) refuse(spec, "there is no broker");
  const bool good = !address.topic.empty() && address.topic.size() <= 240 && address.topic != "." &&
                    address.topic != ".." && std::ranges::all_of(address.topic, of_topic);
  if (!good) refuse(spec, "a topic is up to 240 letters, digits, '.', '_' and '-'");
  return address;
}

}  // namespace millrace::sink
