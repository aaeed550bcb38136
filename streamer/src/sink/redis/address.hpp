#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "sink/secret.hpp"

namespace millrace::sink {

/** @brief How the server of `rediss://` is known, and this client to it. */
struct RedisTls {
  std::string ca;           ///< file of certificates that are trusted; empty: those of the system
  std::string certificate;  ///< file of this client's, with `key`; empty: none
  std::string key;
  Secret key_password;
  std::string server_name;  ///< that its certificate has; empty: the host
};

/**
 * @brief What `redis://[USER@]HOST:PORT[/PREFIX][?SETTING=VALUE&...]` says, `rediss://` (the same,
 *        over TLS), or `redis+unix://[USER@]/PATH?prefix=PREFIX&...`.
 */
struct RedisAddress {
  std::string host;  ///< a name or a number; written in [] if it has a ':'
  int port = 0;
  std::string socket;               ///< path of a socket, in place of host and port; empty: none
  std::string prefix = "millrace";  ///< of all keys: letters, digits, '_', '.', '-', '{' and '}'
  std::string user;                 ///< of the server's access control list; empty: the default one
  Secret password;                  ///< empty: that of REDISCLI_AUTH, where it is set
  unsigned database = 0;
  std::optional<RedisTls> tls;
};
/** @throws std::invalid_argument that says what is wrong with it, and shows no secret */
[[nodiscard]] RedisAddress parse_redis_address(std::string_view spec);

/** @brief How long a server is waited for, and how much it is sent at a time. */
struct RedisLimits {
  std::chrono::milliseconds connect{5000};  ///< look-up of the name, connection and handshake
  std::chrono::milliseconds reply{10'000};  ///< a whole reply, or a whole call that is sent
  std::size_t call_rows = 256;              ///< of one call of the script: others wait for it
  std::size_t call_bytes = std::size_t{256} << 10;
  std::size_t calls = 8;  ///< in flight
};

}  // namespace millrace::sink
