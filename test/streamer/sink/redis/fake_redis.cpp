#include "test/streamer/sink/redis/fake_redis.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <utility>

namespace millrace::test {
namespace {

/// The text up to the next line end, or nothing if the line is incomplete.
std::optional<std::string_view> line_at(std::string_view text, std::size_t& at) {
  const std::size_t end = text.find("\r\n", at);
  if (end == std::string_view::npos) return std::nullopt;
  return text.substr(std::exchange(at, end + 2), end - at);
}

std::size_t number_in(std::string_view text) {
  std::size_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// Removes one whole command from the received text and returns the command's first word.
std::optional<std::string> take_command(std::string& came) {
  std::size_t at = 0;
  const auto count = line_at(came, at);
  if (!count) return std::nullopt;
  std::string first;
  for (std::size_t word = number_in(count->substr(1)); word > 0; --word) {
    const auto length = line_at(came, at);
    if (!length) return std::nullopt;
    const std::size_t bytes = number_in(length->substr(1));
    if (came.size() < at + bytes + 2) return std::nullopt;
    if (first.empty()) first = came.substr(at, bytes);
    at += bytes + 2;
  }
  came.erase(0, at);
  return first;
}

}  // namespace

std::string text_reply(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

std::string array_reply(const std::vector<std::string>& elements) {
  std::string reply = "*" + std::to_string(elements.size()) + "\r\n";
  for (const std::string& element : elements) reply += element;
  return reply;
}

FakeRedis::FakeRedis(Answers answers, std::chrono::milliseconds a_byte)
    : answers_(std::move(answers)), a_byte_(a_byte) {
  answers_.try_emplace("INFO", text_reply("maxmemory:0\r\n"));
  answers_.try_emplace("SCRIPT", text_reply(std::string(40, 'a')));
  listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listening_, any, length) != 0 || ::listen(listening_, 8) != 0 ||
      ::getsockname(listening_, any, &length) != 0 || ::pipe(ended_) != 0) {
    throw std::runtime_error{"nothing can listen on the loopback"};
  }
  port_ = ntohs(address.sin_port);
  server_ = std::thread{[this] { serve(); }};
}

FakeRedis::~FakeRedis() {
  ::close(ended_[1]);
  server_.join();
  ::close(ended_[0]);
  ::close(listening_);
}

std::string FakeRedis::spec() const {
  return "redis://127.0.0.1:" + std::to_string(port_) + "/test";
}

namespace {

/// Waits until `file` is readable. @return false if `end` was closed first
bool readable(int file, int end) {
  std::array<pollfd, 2> both{pollfd{.fd = file, .events = POLLIN, .revents = 0},
                             pollfd{.fd = end, .events = POLLIN, .revents = 0}};
  while (::poll(both.data(), both.size(), -1) < 0) {
  }
  return both[1].revents == 0;
}

}  // namespace

void FakeRedis::serve() const {
  while (readable(listening_, ended_[0])) {
    const int connection = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    answer(connection);
    ::close(connection);
  }
}

/// Sends short replies at once, because every connection begins with some.
bool FakeRedis::send(int connection, const std::string& reply) const {
  constexpr std::size_t kShort = 100;
  const std::size_t piece = a_byte_.count() == 0 || reply.size() < kShort ? reply.size() : 1;
  for (std::size_t at = 0; at < reply.size(); at += piece) {
    if (at > 0) std::this_thread::sleep_for(a_byte_);
    if (::send(connection, reply.data() + at, piece, MSG_NOSIGNAL) < 0) return false;
  }
  return true;
}

/// Answers until the other side closes the connection.
void FakeRedis::answer(int connection) const {
  std::string came;
  std::array<char, 4096> some{};
  while (readable(connection, ended_[0])) {
    const ssize_t got = ::recv(connection, some.data(), some.size(), 0);
    if (got <= 0) return;
    came.append(some.data(), static_cast<std::size_t>(got));
    while (const auto command = take_command(came)) {
      const auto found = answers_.find(*command);
      const std::string reply = found == answers_.end() ? ":1\r\n" : found->second;
      if (!send(connection, reply)) return;
    }
  }
}

}  // namespace millrace::test
