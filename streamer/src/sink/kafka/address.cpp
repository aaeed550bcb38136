#include "sink/kafka/address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "millrace/streamer/sink.hpp"
#include "sink/secret.hpp"

namespace millrace::sink {
namespace {

constexpr std::string_view kScheme = "kafka://";
constexpr std::array<std::string_view, 7> kOurs{
    "acks",     "bootstrap.servers",    "enable.auto.offset.store", "enable.idempotence",
    "group.id", "metadata.broker.list", "request.required.acks"};

[[noreturn]] void refuse(std::string_view spec, const std::string& why) {
  throw std::invalid_argument(fmt::format(
      "'{}': {} (expected kafka://HOST:PORT,.../TOPIC, and then optionally ?SETTING=VALUE&...)",
      redacted(spec), why));
}

bool of_topic(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

/** A setting NAME-env or NAME-file names the place of a secret. */
void add_setting(std::string_view spec, std::string_view name, const std::string& value,
                 KafkaAddress& address) {
  const auto add_secret = [&](std::string_view suffix, const Secret& secret) {
    try {
      address.settings.emplace_back(name.substr(0, name.size() - suffix.size()), secret.read());
    } catch (const std::runtime_error& error) {
      refuse(spec, error.what());
    }
  };
  if (name.ends_with("-env")) return add_secret("-env", Secret::in_variable(value));
  if (name.ends_with("-file")) return add_secret("-file", Secret::in_file(value));
  if (is_secret(name)) {
    refuse(spec, fmt::format("{0} is a secret, which others would see: {0}-env=VARIABLE or "
                             "{0}-file=FILE says where it is",
                             name));
  }
  address.settings.emplace_back(name, value);
}

void read_settings(std::string_view spec, std::string_view text, KafkaAddress& address) {
  while (!text.empty()) {
    const std::string_view setting = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(setting.size() + 1, text.size()));
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      refuse(spec, "a setting after ? or & is not of the form SETTING=VALUE");
    }
    const std::string_view name = setting.substr(0, equals);
    if (std::ranges::find(kOurs, name) != kOurs.end()) {
      refuse(spec, fmt::format("{} is not for users to set", name));
    }
    add_setting(spec, name, std::string{setting.substr(equals + 1)}, address);
  }
}

}  // namespace

KafkaAddress parse_kafka_address(std::string_view spec) {
  if (spec.substr(0, spec.find('?')).find('@') != std::string_view::npos) {
    refuse(spec,
           "users and passwords are settings: sasl.username=USER, and "
           "sasl.password-env=VARIABLE or sasl.password-file=FILE");
  }
  if (!spec.starts_with(kScheme)) refuse(spec, "it does not begin with kafka://");
  std::string_view rest = spec.substr(kScheme.size());
  KafkaAddress address;
  if (const std::size_t question = rest.find('?'); question != std::string_view::npos) {
    read_settings(spec, rest.substr(question + 1), address);
    rest = rest.substr(0, question);
  }
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos) refuse(spec, "it has no topic");
  address.brokers = rest.substr(0, slash);
  address.topic = rest.substr(slash + 1);
  if (address.brokers.empty()) refuse(spec, "it has no broker");
  const bool good = !address.topic.empty() && address.topic.size() <= 240 && address.topic != "." &&
                    address.topic != ".." && std::ranges::all_of(address.topic, of_topic);
  if (!good) refuse(spec, "a topic is up to 240 letters, digits, '.', '_' and '-'");
  return address;
}

}  // namespace millrace::sink
