#include "collective/rendezvous/socket.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>

namespace millrace::collective {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kConnectAgain = std::chrono::milliseconds{20};

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses addresses_of(const std::string& host, std::uint16_t port) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (failed != 0) {
    throw std::runtime_error{fmt::format("host {}: {}", host, gai_strerror(failed))};
  }
  return {found, &freeaddrinfo};
}

void send_at_once(int descriptor) {
  const int on = 1;
  // Messages are few and small, and a rank waits for each, so they must not be delayed.
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

void Socket::close() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

Socket Socket::listen(std::uint16_t port) {
  // One socket for both protocols, if the machine has IPv6.
  Socket socket{::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const bool v6 = socket.open();
  if (!v6) socket = Socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const int on = 1, off = 0;
  // A job that starts right after another may use the same port.
  ::setsockopt(socket.descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  int bound = -1;
  if (v6) {
    ::setsockopt(socket.descriptor_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(port);
    bound = ::bind(socket.descriptor_, reinterpret_cast<const sockaddr*>(&any), sizeof(any));
  } else {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    bound = ::bind(socket.descriptor_, reinterpret_cast<const sockaddr*>(&any), sizeof(any));
  }
  if (bound != 0 || ::listen(socket.descriptor_, SOMAXCONN) != 0) {
    throw std::runtime_error{
        fmt::format("rank 0 cannot listen at port {}: {}", port, std::strerror(errno))};
  }
  return socket;
}

Socket Socket::connect(const std::string& host, std::uint16_t port, Deadline until) {
  const Addresses addresses = addresses_of(host, port);
  for (;;) {
    for (const addrinfo* to = addresses.get(); to != nullptr; to = to->ai_next) {
      Socket socket{::socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC, to->ai_protocol)};
      if (!socket.open()) continue;
      if (::connect(socket.descriptor_, to->ai_addr, to->ai_addrlen) != 0) continue;
      send_at_once(socket.descriptor_);
      return socket;
    }
    // Rank 0 may not listen yet.
    if (Clock::now() + kConnectAgain > until) return {};
    std::this_thread::sleep_for(kConnectAgain);
  }
}

namespace {

bool poll_until(std::span<pollfd> sockets, Deadline until) noexcept {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    // At most a second at a time: poll() counts milliseconds in int.
    const auto wait = left.count() < 0 ? 0 : left.count() > 1000 ? 1000 : left.count();
    const int found = ::poll(sockets.data(), sockets.size(), static_cast<int>(wait));
    if (found > 0) return true;
    if (found == 0 && left.count() <= 0) return false;
    if (found < 0 && errno != EINTR) return false;
  }
}

}  // namespace

bool Socket::ready(Deadline until) const noexcept {
  pollfd one{descriptor_, POLLIN, 0};
  return poll_until({&one, 1}, until);
}

bool Socket::await_any(std::span<const Socket* const> sockets, Deadline until) {
  std::vector<pollfd> all;
  for (const Socket* const socket : sockets) all.push_back({socket->descriptor_, POLLIN, 0});
  return poll_until(all, until);
}

Socket Socket::accept(Deadline until) const {
  if (!ready(until)) return {};
  Socket peer{::accept(descriptor_, nullptr, nullptr)};
  if (peer.open()) send_at_once(peer.descriptor_);
  return peer;
}

bool Socket::send(std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    // Without SIGPIPE, which would end the process: a closed connection is reported as an error.
    const auto sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

Socket::Came Socket::receive(std::vector<std::byte>& to, Deadline until) noexcept {
  if (!ready(until)) return Came::nothing;
  std::array<std::byte, 4096> some;
  const auto got = ::recv(descriptor_, some.data(), some.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return Came::nothing;
  if (got <= 0) return Came::end;
  to.insert(to.end(), some.begin(), some.begin() + got);
  return Came::something;
}

}  // namespace millrace::collective
