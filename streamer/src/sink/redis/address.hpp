#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "sink/secret.hpp"

namespace millrace::sink {

/** @brief How a client of `rediss://` verifies the server, and the server the client. */
struct RedisTls {
  std::string ca;           ///< file of trusted certificates; empty: those of the system
  std::string certificate;  ///< file of the client's certificate, used with `key`; empty: none
  std::string key;
  Secret key_password;
  std::string server_name;  ///< name in its certificate; empty: the host
};

/**
 * @brief A parsed `redis://[USER@]HOST:PORT[/PREFIX][?SETTING=VALUE&...]`, `rediss://` (the same,
 *        over TLS), or `redis+unix://[USER@]/PATH?prefix=PREFIX&...`.
 */
struct RedisAddress {
  std::string host;  ///< a name or an address; written in [] if it has a ':'
  int port = 0;
  std::string socket;               ///< path of a socket, in place of host and port; empty: none
  std::string prefix = "millrace";  ///< of all keys: letters, digits, '_', '.', '-', '{' and '}'
  std::string user;                 ///< in the server's access control list; empty: the default
  Secret password;                  ///< empty: that of REDISCLI_AUTH, if it is set
  unsigned database = 0;
  std::optional<RedisTls> tls;
};
/** @throws std::invalid_argument that says what is wrong, and shows no secret */
[[nodiscard]] RedisAddress parse_redis_address(std::string_view spec);

/** @brief How long to wait for a server, and how much to send at a time. */
struct RedisLimits {
  std::chrono::milliseconds connect{5000};  ///< name lookup, connection and handshake
  std::chrono::milliseconds reply{10'000};  ///< one whole reply, or sending one whole call
  std::size_t call_rows = 256;              ///< per call of the script; others wait for it
  std::size_t call_bytes = std::size_t{256} << 10;
  std::size_t calls = 8;  ///< in flight
};

}  // namespace millrace::sink
