#include "test/support/redis_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

namespace millrace::test {
namespace {

constexpr auto kStart = std::chrono::seconds{20};

/// Opens a connection; -1 if no server listens.
int connected(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const timeval patience{.tv_sec = 5, .tv_usec = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return socket;
  ::close(socket);
  return -1;
}

/// Sends one command and then QUIT. Returns the reply to the command.
std::string ask(int port, const std::vector<std::string>& words) {
  const int socket = connected(port);
  if (socket < 0) return {};
  std::string text = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) {
    text += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  text += "*1\r\n$4\r\nQUIT\r\n";
  std::string reply;
  if (::send(socket, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size())) {
    std::array<char, 4096> some{};
    for (ssize_t got = 0; (got = ::recv(socket, some.data(), some.size(), 0)) > 0;) {
      reply.append(some.data(), static_cast<std::size_t>(got));
    }
  }
  ::close(socket);
  constexpr std::string_view kBye = "+OK\r\n";
  return reply.ends_with(kBye) ? reply.substr(0, reply.size() - kBye.size()) : reply;
}

/// redis-check-rdb is the same program as redis-server and acts by its name. So a machine that has
/// only the tools of Redis has a server, too, and no server runs there by itself.
std::string server_program() {
  const std::string server = find_program("redis-server");
  return server.empty() ? find_program("redis-check-rdb") : server;
}

}  // namespace

std::string no_redis_server() {
  return server_program().empty() ? "there is no redis-server on the PATH" : "";
}

RedisServer::RedisServer(Keeps keeps, std::vector<std::string> options)
    : keeps_(keeps), options_(std::move(options)) {
  for (int tries = 0; tries < 5; ++tries) {  // another process may take the port
    port_ = free_port();
    if (try_start()) return;
  }
  throw std::runtime_error{"redis-server does not start"};
}

std::string RedisServer::spec(const std::string& prefix) const {
  return "redis://127.0.0.1:" + std::to_string(port_) + "/" + prefix;
}

void RedisServer::start() {
  if (!try_start()) throw std::runtime_error{"redis-server does not start again"};
}

bool RedisServer::try_start() {
  std::vector<std::string> words{"redis-server",
                                 "--port",
                                 std::to_string(port_),
                                 "--bind",
                                 "127.0.0.1",
                                 "--dir",
                                 folder_.path().string(),
                                 "--save",
                                 "",
                                 "--appendonly",
                                 keeps_ == Keeps::all ? "yes" : "no",
                                 "--appendfsync",
                                 "no"};
  words.insert(words.end(), options_.begin(), options_.end());
  process_.emplace(server_program(), words, (folder_ / "log").string());
  const auto deadline = std::chrono::steady_clock::now() + kStart;
  while (process_->running() && std::chrono::steady_clock::now() < deadline) {
    const std::string reply = ask(port_, {"PING"});
    if (reply.starts_with("+PONG") || reply.starts_with("-NOAUTH")) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return false;
}

std::string RedisServer::command(const std::vector<std::string>& words) const {
  return ask(port_, words);
}

}  // namespace millrace::test
