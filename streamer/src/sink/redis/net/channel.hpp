#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "millrace/streamer/sink.hpp"
#include "sink/deadline.hpp"
#include "sink/redis/address.hpp"

namespace millrace::sink {

/** @brief The server closed the connection, or it broke: a new one may work at once. */
class ConnectionBroke final : public SinkError {
 public:
  explicit ConnectionBroke(const std::string& what) : SinkError(Kind::retry, what) {}
};

/** @brief Sends bytes to a server and receives bytes. After an exception it can only be
 *         destroyed. */
class Channel {
 public:
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /** @brief Sends all bytes. @throws SinkError (retry) after the deadline; ConnectionBroke */
  virtual void send(std::string_view bytes, const Deadline& by) = 0;
  /** @brief Waits for some bytes. @throws like `send` */
  [[nodiscard]] virtual std::size_t receive(std::span<char> into, const Deadline& by) = 0;

 protected:
  Channel() = default;
};

/**
 * @brief Connects to the address's server, including the TLS handshake.
 * @param name  begins each message. @throws SinkError
 */
[[nodiscard]] std::unique_ptr<Channel> connect_channel(const RedisAddress& address,
                                                       const std::string& name, const Deadline& by);

/** @brief Puts TLS over a connection. @throws SinkError: wrong if the server cannot be trusted */
[[nodiscard]] std::unique_ptr<Channel> make_tls(std::unique_ptr<Channel> under,
                                                const RedisAddress& address,
                                                const std::string& name, const Deadline& by);

}  // namespace millrace::sink
