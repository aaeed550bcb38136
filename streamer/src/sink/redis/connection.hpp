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

/** @brief Limits of a connection. */
struct RedisManners {
  RedisLimits limits;
  const Deadline::Shared& finish_by;  ///< end of everything that uses the connection
};

/**
 * @brief One connection to a server. After an exception it can only be destroyed.
 *
 * Every call has one deadline, for sending and for the whole reply, however slowly the server sends
 * its bytes.
 */
class RedisConnection {
 public:
  /** @param name  begins each message. @throws SinkError */
  RedisConnection(const RedisAddress& address, const RedisManners& manners, std::string name);
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  /** @brief Sends a command; replies arrive in the order of the commands. */
  void send(std::span<const std::string_view> words);
  /**
   * @return the next reply, which must not outlive this. @throws SinkError if the reply is an error
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
