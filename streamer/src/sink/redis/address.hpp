#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "sink/secret.hpp"

namespace millrace::sink {

/** @brief How a client of `rediss://` and the server verify each other. */
struct RedisTls {
  std::string ca;           ///< file of trusted certificates; empty: those of the system
  std::string certificate;  ///< file of the client's certificate, used with `key`; empty: none
  std::string key;
  Secret key_password;
  std::string server_name;  ///< name in the server's certificate; empty: the host
};

/**
 * @brief A parsed `redis://[USER@]HOST:PORT[/PREFIX][?SETTING=VALUE&...]`, `rediss://` (the same,
 *        over TLS), or `redis+unix://[USER@]/PATH?prefix=PREFIX&...`.
 */
struct RedisAddress {
  std::string host;  ///< a name or an address; written in [] if it has a ':'
  int port = 0;
  std::string socket;  ///< path of a socket, in place of host and port; empty: none
  /** Prefix of all keys: letters, digits, '_', '.', '-', '{' and '}' */
  std::string prefix = "millrace";
  std::string user;  ///< name in the server's access control list; empty: the default user
  Secret password;   ///< empty: REDISCLI_AUTH is used, if it is set
  unsigned database = 0;
  std::optional<RedisTls> tls;
};
/** @throws std::invalid_argument that says what is wrong, and shows no secret */
[[nodiscard]] RedisAddress parse_redis_address(std::string_view spec);

/** @brief Time limits, and the size of calls. */
struct RedisLimits {
  std::chrono::milliseconds connect{5000};  ///< name lookup, connection and handshake
  std::chrono::milliseconds reply{10'000};  ///< one whole reply, or sending one whole call
  std::size_t call_rows = 256;  ///< rows per call of the script; other clients wait for the script
  std::size_t call_bytes = std::size_t{256} << 10;
  std::size_t calls = 8;  ///< calls in flight
};

}  // namespace millrace::sink
