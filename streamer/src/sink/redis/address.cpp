#include "sink/redis/address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace millrace::sink {
namespace {

constexpr std::string_view kScheme = "redis://";

[[noreturn]] void refuse(std::string_view spec, const char* why) {
  throw std::invalid_argument(
      fmt::format("'{}': {}; redis://HOST:PORT or redis://HOST:PORT/PREFIX", spec, why));
}

bool of_prefix(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view{"_.-{}"}.find(c) != std::string_view::npos;
}

}  // namespace

RedisAddress parse_redis_address(std::string_view spec) {
  if (!spec.starts_with(kScheme)) refuse(spec, "it does not begin with redis://");
  std::string_view server = spec.substr(kScheme.size());
  RedisAddress address;
  if (const std::size_t slash = server.find('/'); slash != std::string_view::npos) {
    address.prefix = server.substr(slash + 1);
    server = server.substr(0, slash);
    if (address.prefix.empty() || !std::ranges::all_of(address.prefix, of_prefix)) {
      refuse(spec, "a prefix is letters, digits, '_', '.', '-', '{' and '}'");
    }
  }
  const std::size_t colon = server.rfind(':');
  if (colon == std::string_view::npos) refuse(spec, "there is no port");
  const std::string_view port = server.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc{} || end != port.data() + port.size() || address.port < 1 ||
      address.port > 65535) {
    refuse(spec, "a port is a number from 1 to 65535");
  }
  std::string_view host = server.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    refuse(spec, "an address with ':' is written in []");
  }
  if (host.empty()) refuse(spec, "there is no host");
  address.host = host;
  return address;
}

}  // namespace millrace::sink
