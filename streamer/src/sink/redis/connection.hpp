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

/** @brief Translates the text of a server's error into an error of a sink. */
[[nodiscard]] SinkError::Kind kind_of_redis_error(std::string_view words) noexcept;

/** @brief How a connection behaves. */
struct RedisManners {
  RedisLimits limits;
  const Deadline::Shared& finish_by;  ///< for everything that is done with it
};

/**
 * @brief One connection to a server, with a script loaded. After an exception it can only be
 *        destroyed.
 *
 * Every call has one deadline for all of it: sending, and the whole reply, however slowly the
 * server sends its bytes.
 */
class RedisConnection {
 public:
  /** @param name  beginning of messages. @throws SinkError */
  RedisConnection(const RedisAddress& address, const RedisManners& manners, std::string name);
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  /** @brief Sends a command; replies arrive in the order of the commands. */
  void send(std::span<const std::string_view> words);
  /** @return the next reply, which must not outlive this. @throws SinkError if it is an error
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
  bool too_many_ = false;  ///< an array has too many elements
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<redisReader, Free> reader_;
};

[[nodiscard]] std::string_view text_of(std::span<const std::byte> bytes) noexcept;

}  // namespace millrace::sink
