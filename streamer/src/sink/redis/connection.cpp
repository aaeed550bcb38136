#include "sink/redis/connection.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

namespace millrace::sink {
namespace {

timeval to_timeval(std::chrono::milliseconds time) {
  return {.tv_sec = time.count() / 1000, .tv_usec = time.count() % 1000 * 1000};
}

constexpr std::size_t kDigest = 40;  ///< characters of what scripts are called
/** Behind a reply that takes more bytes in one piece than a record may have nobody waits. */
constexpr std::size_t kMostUnread = kLargestRecord + (std::size_t{1} << 20);

std::string error_text(int error) { return std::system_category().message(error); }

/** The value of "key:value" in what INFO tells. */
std::string_view told(std::string_view info, std::string_view key) {
  for (std::size_t begin = 0; begin < info.size();) {
    const std::size_t end = std::min(info.find("\r\n", begin), info.size());
    const std::string_view line = info.substr(begin, end - begin);
    if (line.starts_with(key) && line.substr(key.size()).starts_with(':')) {
      return line.substr(key.size() + 1);
    }
    begin = end + 2;
  }
  return {};
}

}  // namespace

SinkError::Kind kind_of_redis_error(std::string_view words) noexcept {
  // Anywhere in it: servers before version 7 put a script's errors behind words of their own.
  static constexpr std::array<std::string_view, 11> kWrong{
      "NOAUTH", "WRONGPASS", "NOPERM", "WRONGTYPE", "DENIED",         "MOVED ",
      "ASK ",   "CROSSSLOT", "AUTH",   "NOPROTO",   "unknown command"};
  const bool wrong = std::ranges::any_of(
      kWrong, [&](std::string_view word) { return words.find(word) != std::string_view::npos; });
  return wrong ? SinkError::Kind::wrong : SinkError::Kind::retry;
}

std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

RedisConnection::RedisConnection(const RedisAddress& address, const RedisLimits& limits,
                                 std::string name)
    : address_(address), limits_(limits), name_(std::move(name)) {
  connect();
  authenticate();
  refuse_eviction();
}

void RedisConnection::connect() {
  context_.reset(
      redisConnectWithTimeout(address_.host.c_str(), address_.port, to_timeval(limits_.connect)));
  if (context_ == nullptr) throw std::bad_alloc{};
  if (context_->err != 0) {
    throw SinkError{SinkError::Kind::retry,
                    fmt::format("{}: no connection: {}", name_, context_->errstr)};
  }
  redisEnableKeepAlive(context_.get());
  limit_elements(*context_->reader, too_many_);
}

void RedisConnection::authenticate() {
  const char* const password = std::getenv("REDISCLI_AUTH");
  if (password != nullptr) (void)command(std::array<std::string_view, 2>{"AUTH", password});
}

void RedisConnection::refuse_eviction() {
  const Reply reply = command(std::array<std::string_view, 2>{"INFO", "memory"});
  const std::string_view info = reply->text(), policy = told(info, "maxmemory_policy");
  if (told(info, "maxmemory") == "0" || !policy.starts_with("allkeys")) return;
  throw SinkError{SinkError::Kind::wrong,
                  fmt::format("{}: rows would be lost silently: it drops keys when memory is short "
                              "(maxmemory-policy {}); with noeviction it does not",
                              name_, policy)};
}

std::string RedisConnection::load_script(std::string_view script) {
  const Reply reply = command(std::array<std::string_view, 3>{"SCRIPT", "LOAD", script});
  const std::string_view digest = reply->text();
  if (digest.size() != kDigest) reply->refuse(fmt::format("'{}' for a script's digest", digest));
  return std::string{digest};
}

void RedisConnection::broke(std::string_view why) const {
  throw ConnectionBroke{fmt::format("{}: the connection broke: {}", name_, why)};
}

void RedisConnection::await(short events) {
  pollfd descriptor{.fd = context_->fd, .events = events, .revents = 0};
  const auto deadline = std::chrono::steady_clock::now() + limits_.reply;
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const int ready =
        ::poll(&descriptor, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready > 0) return;
    if (ready == 0) {
      throw SinkError{SinkError::Kind::retry,
                      fmt::format("{}: no answer in {} ms", name_, limits_.reply.count())};
    }
    if (errno != EINTR) broke(error_text(errno));
  }
}

// hiredis would write itself, but with a signal where the server has gone.
void RedisConnection::send(std::span<const std::string_view> words) {
  std::vector<const char*> parts;
  std::vector<std::size_t> lengths;
  for (const std::string_view word : words) {
    parts.push_back(word.data());
    lengths.push_back(word.size());
  }
  char* formatted = nullptr;
  const int length = redisFormatCommandArgv(&formatted, static_cast<int>(words.size()),
                                            parts.data(), lengths.data());
  if (length < 0) throw std::bad_alloc{};
  const std::unique_ptr<char, void (*)(char*)> owner{formatted, redisFreeCommand};
  std::string_view left{formatted, static_cast<std::size_t>(length)};
  while (!left.empty()) {
    const ssize_t sent =
        ::send(context_->fd, left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      left.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      await(POLLOUT);
    } else if (errno != EINTR) {
      broke(error_text(errno));
    }
  }
}

/** What it reads may be no reply, or one that never ends. */
void RedisConnection::check_reader() const {
  const redisReader& reader = *context_->reader;
  const auto refuse = [&](SinkError::Kind kind, std::string_view what) {
    throw SinkError{kind, fmt::format("{}: no Redis that is known answers so: {}", name_, what)};
  };
  if (too_many_) refuse(SinkError::Kind::wrong, "an array of too many elements");
  if (reader.len > kMostUnread) refuse(SinkError::Kind::wrong, "a text longer than any record");
  if (reader.err == REDIS_ERR_PROTOCOL) refuse(SinkError::Kind::wrong, reader.errstr);
  if (reader.err != 0) broke(reader.errstr);
}

Reply RedisConnection::receive() {
  void* reply = nullptr;
  for (;;) {
    (void)redisReaderGetReply(context_->reader, &reply);
    check_reader();
    if (reply != nullptr) break;
    await(POLLIN);
    if (redisBufferRead(context_.get()) != REDIS_OK) broke(context_->errstr);
  }
  Reply::Owner owner{static_cast<redisReply*>(reply)};
  if (owner->type == REDIS_REPLY_ERROR) {
    const std::string_view words{owner->str, static_cast<std::size_t>(owner->len)};
    if (words.starts_with("NOSCRIPT")) broke("the server has forgotten the script");
    throw SinkError{kind_of_redis_error(words), fmt::format("{}: {}", name_, words)};
  }
  return {std::move(owner), name_};
}

Reply RedisConnection::command(std::span<const std::string_view> words) {
  send(words);
  return receive();
}

}  // namespace millrace::sink
