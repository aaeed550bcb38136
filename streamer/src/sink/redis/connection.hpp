#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "millrace/streamer/sink.hpp"
#include "sink/redis/address.hpp"
#include "sink/redis/reply.hpp"

namespace millrace::sink {

/** @brief The server closed the connection, or it broke: a new one may work at once. */
class ConnectionBroke final : public SinkError {
 public:
  explicit ConnectionBroke(const std::string& what) : SinkError(Kind::retry, what) {}
};

/** @brief What a server's error, in its words, means to whoever writes. */
[[nodiscard]] SinkError::Kind kind_of_redis_error(std::string_view words) noexcept;

/**
 * @brief One connection to a server, with a script loaded. Whatever throws leaves it in a state in
 *        which only its end is sensible.
 */
class RedisConnection {
 public:
  /** @param name  that messages begin with. @throws SinkError */
  RedisConnection(const RedisAddress& address, const RedisLimits& limits, std::string name);
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  /** @brief Sends a command, whose reply comes behind those of all before. */
  void send(std::span<const std::string_view> words);
  /** @brief The next one, which does not outlive this. @throws SinkError for one that is an error
   */
  [[nodiscard]] Reply receive();
  [[nodiscard]] Reply command(std::span<const std::string_view> words);

  [[nodiscard]] std::string load_script(std::string_view script);

 private:
  struct Free {
    void operator()(redisContext* context) const noexcept { redisFree(context); }
  };

  void connect();
  void authenticate();
  void refuse_eviction();
  void await(short events);
  void check_reader() const;
  [[noreturn]] void broke(std::string_view why) const;

  RedisAddress address_;
  RedisLimits limits_;
  std::string name_;
  bool too_many_ = false;  ///< elements of an array
  std::unique_ptr<redisContext, Free> context_;
};

[[nodiscard]] std::string_view text_of(std::span<const std::byte> bytes) noexcept;

}  // namespace millrace::sink
