#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "millrace/streamer/sink.hpp"
#include "sink/redis/address.hpp"
#include "sink/redis/net/channel.hpp"
#include "sink/redis/reply.hpp"

namespace millrace::sink {

/** @brief What a server's error, in its words, means to whoever writes. */
[[nodiscard]] SinkError::Kind kind_of_redis_error(std::string_view words) noexcept;

/** @brief How a connection behaves. */
struct RedisManners {
  RedisLimits limits;
  const Deadline::Shared& finish_by;  ///< for all that is done with it
};

/**
 * @brief One connection to a server, with a script loaded. Whatever throws leaves it in a state in
 *        which only its end is sensible.
 *
 * Every call ends by a deadline for all of it: what is sent, and the whole reply, however the
 * server deals out its bytes.
 */
class RedisConnection {
 public:
  /** @param name  that messages begin with. @throws SinkError */
  RedisConnection(const RedisAddress& address, const RedisManners& manners, std::string name);
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  /** @brief Sends a command, whose reply comes behind those of all before. */
  void send(std::span<const std::string_view> words);
  /** @brief The next one, which does not outlive this. @throws SinkError for one that is an error
   */
  [[nodiscard]] Reply receive();
  [[nodiscard]] Reply command(std::span<const std::string_view> words);

  [[nodiscard]] std::string load_script(std::string_view script);
  /** @throws SinkError (wrong) if the server drops keys when its memory is full */
  void refuse_eviction();

 private:
  struct Free {
    void operator()(redisReader* reader) const noexcept { redisReaderFree(reader); }
  };

  void authenticate(const RedisAddress& address);
  void choose_database(unsigned database);
  void check_reader() const;
  [[noreturn]] void broke(std::string_view why) const;
  [[nodiscard]] Deadline reply_deadline() const {
    return {manners_.limits.reply, manners_.finish_by};
  }

  RedisManners manners_;
  std::string name_;
  bool too_many_ = false;  ///< elements of an array
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<redisReader, Free> reader_;
};

[[nodiscard]] std::string_view text_of(std::span<const std::byte> bytes) noexcept;

}  // namespace millrace::sink
