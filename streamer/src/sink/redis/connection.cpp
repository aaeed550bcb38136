#include "sink/redis/connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

namespace millrace::sink {
namespace {

constexpr std::size_t kDigest = 40;  ///< characters of a script's digest
/** No call expects a reply with more bytes in one piece than a record may have. */
constexpr std::size_t kMostUnread = kLargestRecord + (std::size_t{1} << 20);

/** Returns the value of "key:value" in the reply of INFO. */
std::string_view value_of(std::string_view info, std::string_view key) {
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
  // Anywhere in the text: servers before version 7 put their own words before a script's errors.
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

RedisConnection::RedisConnection(const RedisAddress& address, const RedisManners& manners,
                                 std::string name)
    : manners_(manners),
      name_(std::move(name)),
      channel_(connect_channel(address, name_, {manners.limits.connect, manners.finish_by})),
      reader_(redisReaderCreate()) {
  if (reader_ == nullptr) throw std::bad_alloc{};
  limit_elements(*reader_, too_many_);
  authenticate(address);
  choose_database(address.database);
  refuse_eviction();
}

/** REDISCLI_AUTH serves any server that asks for a password; a server without one ignores it.
 */
void RedisConnection::authenticate(const RedisAddress& address) {
  std::string password;
  const char* const usual = std::getenv("REDISCLI_AUTH");
  if (address.password.empty() && usual == nullptr) return;
  try {
    password = address.password.empty() ? usual : address.password.read();
  } catch (const std::runtime_error& error) {
    throw SinkError{SinkError::Kind::retry, fmt::format("{}: {}", name_, error.what())};
  }
  std::vector<std::string_view> words{"AUTH"};
  if (!address.user.empty()) words.emplace_back(address.user);
  words.emplace_back(password);
  try {
    (void)command(words);
  } catch (const SinkError& error) {
    const std::string_view what = error.what();
    const bool has_none = what.find("any password configured") != std::string_view::npos ||
                          what.find("no password is set") != std::string_view::npos;
    if (!has_none || !address.password.empty()) throw;
  }
}

void RedisConnection::choose_database(unsigned database) {
  if (database == 0) return;
  const std::string number = std::to_string(database);
  try {
    (void)command(std::array<std::string_view, 2>{"SELECT", number});
  } catch (const SinkError& error) {
    if (std::string_view{error.what()}.find("DB index") == std::string_view::npos) throw;
    throw SinkError{SinkError::Kind::wrong,
                    fmt::format("{}: the server has no database {}", name_, database)};
  }
}

void RedisConnection::refuse_eviction() {
  const Reply reply = command(std::array<std::string_view, 2>{"INFO", "memory"});
  const std::string_view info = reply->text(), policy = value_of(info, "maxmemory_policy");
  if (value_of(info, "maxmemory") == "0" || !policy.starts_with("allkeys")) return;
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
  channel_->send({formatted, static_cast<std::size_t>(length)}, reply_deadline());
}

/** The bytes may not be a reply, or may be a reply that never ends. */
void RedisConnection::check_reader() const {
  const redisReader& reader = *reader_;
  const auto refuse = [&](SinkError::Kind kind, std::string_view what) {
    throw SinkError{kind, fmt::format("{}: unexpected answer of the server: {}", name_, what)};
  };
  if (too_many_) refuse(SinkError::Kind::wrong, "an array of too many elements");
  if (reader.len > kMostUnread) refuse(SinkError::Kind::wrong, "a text longer than any record");
  if (reader.err == REDIS_ERR_PROTOCOL) refuse(SinkError::Kind::wrong, reader.errstr);
  if (reader.err != 0) broke(reader.errstr);
}

Reply RedisConnection::receive() {
  void* reply = nullptr;
  std::array<char, 1 << 16> some;
  const Deadline by = reply_deadline();
  for (;;) {
    (void)redisReaderGetReply(reader_.get(), &reply);
    check_reader();
    if (reply != nullptr) break;
    const std::size_t got = channel_->receive(some, by);
    (void)redisReaderFeed(reader_.get(), some.data(), got);
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
