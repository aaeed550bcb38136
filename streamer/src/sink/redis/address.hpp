#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace millrace::sink {

/** @brief What `redis://HOST:PORT[/PREFIX]` says. */
struct RedisAddress {
  std::string host;  ///< a name or a number; written in [] if it has a ':'
  int port = 0;
  std::string prefix = "millrace";  ///< of all keys: letters, digits, '_', '.', '-', '{' and '}'
};
/** @throws std::invalid_argument that says what is wrong with it */
[[nodiscard]] RedisAddress parse_redis_address(std::string_view spec);

/** @brief How long a server is waited for, and how much it is sent at a time. */
struct RedisLimits {
  std::chrono::milliseconds connect{5000};  ///< behind the look-up of the name
  std::chrono::milliseconds reply{10'000};  ///< until the next reply comes, or more can be sent
  std::size_t call_rows = 256;              ///< of one call of the script: others wait for it
  std::size_t call_bytes = std::size_t{256} << 10;
  std::size_t calls = 8;  ///< in flight
};

}  // namespace millrace::sink
