#include "sink/redis/address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "millrace/streamer/sink.hpp"
#include "millrace/text/parse_number.hpp"

namespace millrace::sink {
namespace {

constexpr std::string_view kPlain = "redis://", kTls = "rediss://", kSocket = "redis+unix://";

[[noreturn]] void refuse(std::string_view spec, std::string_view why) {
  throw std::invalid_argument(
      fmt::format("'{}': {} (expected redis://[USER@]HOST:PORT[/PREFIX], rediss:// for TLS, or "
                  "redis+unix://[USER@]/PATH, and then optionally ?SETTING=VALUE&...)",
                  redacted(spec), why));
}

bool of_prefix(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view{"_.-{}"}.find(c) != std::string_view::npos;
}

template <typename Number>
bool read_number(std::string_view text, Number& number) {
  const auto read = text::parse_number<Number>(text);
  if (read) number = *read;
  return read.has_value();
}

void set_prefix(std::string_view spec, std::string_view prefix, RedisAddress& address) {
  if (prefix.empty() || !std::ranges::all_of(prefix, of_prefix)) {
    refuse(spec, "a prefix is letters, digits, '_', '.', '-', '{' and '}'");
  }
  if (std::ranges::all_of(prefix, [](char c) { return c >= '0' && c <= '9'; })) {
    refuse(spec, "a prefix of keys must not be a number; a database is given as ?db=N");
  }
  address.prefix = prefix;
}

void set_server(std::string_view spec, std::string_view server, RedisAddress& address) {
  const std::size_t colon = server.rfind(':');
  if (colon == std::string_view::npos) refuse(spec, "it has no port");
  if (!read_number(server.substr(colon + 1), address.port) || address.port < 1 ||
      address.port > 65535) {
    refuse(spec, "a port is a number from 1 to 65535");
  }
  std::string_view host = server.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    refuse(spec, "an address with ':' is written in []");
  }
  if (host.empty()) refuse(spec, "it has no host");
  address.host = host;
}

/** Removes the user from the beginning of `place`. */
void set_user(std::string_view spec, std::string_view& place, RedisAddress& address) {
  const std::size_t at = place.substr(0, place.find('/')).rfind('@');
  if (at == std::string_view::npos) return;
  const std::string_view user = place.substr(0, at);
  if (user.empty() || user.find(':') != std::string_view::npos) {
    refuse(spec,
           "an address has no password, which others would see: ?password-env=VARIABLE or "
           "?password-file=FILE says where it is");
  }
  address.user = user;
  place.remove_prefix(at + 1);
}

bool set_tls(RedisTls& tls, std::string_view name, const std::string& value) {
  if (name == "ca") {
    tls.ca = value;
  } else if (name == "cert") {
    tls.certificate = value;
  } else if (name == "key") {
    tls.key = value;
  } else if (name == "key-password-env") {
    tls.key_password = Secret::in_variable(value);
  } else if (name == "key-password-file") {
    tls.key_password = Secret::in_file(value);
  } else if (name == "server-name") {
    tls.server_name = value;
  } else {
    return false;
  }
  return true;
}

void set(std::string_view spec, std::string_view name, const std::string& value,
         RedisAddress& address) {
  if (value.empty()) refuse(spec, fmt::format("{} has no value", name));
  if (name == "db") {
    if (!read_number(value, address.database)) refuse(spec, "a database is a number");
  } else if (name == "password-env") {
    address.password = Secret::in_variable(value);
  } else if (name == "password-file") {
    address.password = Secret::in_file(value);
  } else if (name == "prefix" && !address.socket.empty()) {
    set_prefix(spec, value, address);
  } else if (is_secret(name)) {
    refuse(spec, fmt::format("{0} is a secret, which others would see: {0}-env=VARIABLE or "
                             "{0}-file=FILE says where it is",
                             name));
  } else if (!address.tls || !set_tls(*address.tls, name, value)) {
    refuse(spec, fmt::format("unknown setting '{}'; settings are db, password-env and "
                             "password-file, with rediss:// also ca, cert, key, key-password-env, "
                             "key-password-file and server-name, with redis+unix:// also prefix",
                             name));
  }
}

void read_settings(std::string_view spec, std::string_view text, RedisAddress& address) {
  while (!text.empty()) {
    const std::string_view setting = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(setting.size() + 1, text.size()));
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos || equals == 0) refuse(spec, "a setting is NAME=VALUE");
    set(spec, setting.substr(0, equals), std::string{setting.substr(equals + 1)}, address);
  }
}

/** Finds missing settings before a connection is made. */
void check_whole(std::string_view spec, const RedisAddress& address) {
  if (address.tls && address.tls->certificate.empty() != address.tls->key.empty()) {
    refuse(spec, "cert and key go together");
  }
  if (!address.user.empty() && address.password.empty() &&
      std::getenv("REDISCLI_AUTH") == nullptr) {
    refuse(spec,
           "of a user the password is needed: ?password-env=VARIABLE or ?password-file=FILE "
           "says where it is, or REDISCLI_AUTH has it");
  }
  try {
    if (!address.password.empty()) static_cast<void>(address.password.read());
    if (address.tls && !address.tls->key_password.empty()) {
      static_cast<void>(address.tls->key_password.read());
    }
  } catch (const std::runtime_error& error) {
    refuse(spec, error.what());
  }
}

}  // namespace

RedisAddress parse_redis_address(std::string_view spec) {
  RedisAddress address;
  std::string_view rest = spec;
  for (const std::string_view scheme : {kPlain, kTls, kSocket}) {
    if (!spec.starts_with(scheme)) continue;
    rest.remove_prefix(scheme.size());
    if (scheme == kTls) address.tls.emplace();
  }
  if (rest.size() == spec.size()) refuse(spec, "it does not begin with redis://");
  std::string_view settings;
  if (const std::size_t question = rest.find('?'); question != std::string_view::npos) {
    settings = rest.substr(question + 1);
    rest = rest.substr(0, question);
  }
  set_user(spec, rest, address);
  if (spec.starts_with(kSocket)) {
    if (!rest.starts_with('/')) refuse(spec, "the path of a socket begins with '/'");
    address.socket = rest;
  } else {
    if (const std::size_t slash = rest.find('/'); slash != std::string_view::npos) {
      set_prefix(spec, rest.substr(slash + 1), address);
      rest = rest.substr(0, slash);
    }
    set_server(spec, rest, address);
  }
  read_settings(spec, settings, address);
  check_whole(spec, address);
  return address;
}

}  // namespace millrace::sink
