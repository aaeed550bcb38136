#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "sink/file/disk.hpp"
#include "sink/redis/net/channel.hpp"

namespace millrace::sink {
namespace {

std::string error_text(int error) { return std::system_category().message(error); }

class Socket final : public Channel {
 public:
  Socket(File file, std::string name) : file_(std::move(file)), name_(std::move(name)) {}

  // With MSG_NOSIGNAL a closed connection is an error and not a signal.
  void send(std::string_view bytes, const Deadline& by) override {
    while (!bytes.empty()) {
      const ssize_t sent =
          ::send(file_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent >= 0) {
        bytes.remove_prefix(static_cast<std::size_t>(sent));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        await(POLLOUT, by);
      } else if (errno != EINTR) {
        broke(error_text(errno));
      }
    }
  }

  std::size_t receive(std::span<char> into, const Deadline& by) override {
    while (true) {
      // Checked before bytes are taken, too: a peer that never stops sending has the same deadline.
      if (by.passed()) out_of_time(by);
      const ssize_t got = ::recv(file_.get(), into.data(), into.size(), MSG_DONTWAIT);
      if (got > 0) return static_cast<std::size_t>(got);
      if (got == 0) broke("the server closed it");
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        await(POLLIN, by);
      } else if (errno != EINTR) {
        broke(error_text(errno));
      }
    }
  }

  void await(short events, const Deadline& by) const {
    pollfd descriptor{.fd = file_.get(), .events = events, .revents = 0};
    while (!by.passed()) {
      const int ready = ::poll(&descriptor, 1, static_cast<int>(by.slice().count()));
      if (ready > 0) return;
      if (ready < 0 && errno != EINTR) broke(error_text(errno));
    }
    out_of_time(by);
  }

  [[nodiscard]] int file() const noexcept { return file_.get(); }

 private:
  [[noreturn]] void broke(const std::string& why) const {
    throw ConnectionBroke{fmt::format("{}: the connection broke: {}", name_, why)};
  }
  [[noreturn]] void out_of_time(const Deadline& by) const {
    if (by.was_cut_short()) {
      throw SinkError{SinkError::Kind::retry, name_ + ": no answer before the deadline"};
    }
    throw SinkError{SinkError::Kind::retry,
                    fmt::format("{}: no answer in {} ms", name_, by.whole().count())};
  }

  const File file_;
  const std::string name_;
};

[[noreturn]] void refuse_connection(const std::string& name, const std::string& why) {
  throw SinkError{SinkError::Kind::retry, fmt::format("{}: cannot connect: {}", name, why)};
}

struct FreeAddresses {
  void operator()(addrinfo* found) const noexcept { ::freeaddrinfo(found); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

/**
 * Looks a name up in another thread, because name servers may take longer than the deadline allows.
 */
Addresses look_up(const RedisAddress& address, const std::string& name, const Deadline& by) {
  struct Resolution {
    int error = 0;
    Addresses list;
  };
  std::promise<Resolution> promise;
  std::future<Resolution> future = promise.get_future();
  auto resolve = [promise = std::move(promise), host = address.host,
                  port = address.port]() mutable {
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
    promise.set_value({error, Addresses{error == 0 ? found : nullptr}});
  };
  try {
    std::thread{std::move(resolve)}.detach();
  } catch (const std::system_error& error) {  // no thread is left; there may be one later
    refuse_connection(name, error.what());
  }
  while (future.wait_for(by.slice()) != std::future_status::ready) {
    if (by.passed())
      refuse_connection(name, fmt::format("{} was not looked up in time", address.host));
  }
  Resolution found = future.get();
  if (found.error != 0) refuse_connection(name, ::gai_strerror(found.error));
  return std::move(found.list);
}

/** Returns 0, or the error. */
int try_to_connect(const Socket& socket, const sockaddr* to, socklen_t bytes, const Deadline& by) {
  if (::connect(socket.file(), to, bytes) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  try {
    socket.await(POLLOUT, by);
  } catch (const SinkError&) {
    return ETIMEDOUT;
  }
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(socket.file(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

std::unique_ptr<Socket> make_socket(int family, const std::string& name) {
  File file{::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!file) refuse_connection(name, error_text(errno));
  return std::make_unique<Socket>(std::move(file), name);
}

std::unique_ptr<Channel> connect_tcp(const RedisAddress& address, const std::string& name,
                                     const Deadline& by) {
  const Addresses found = look_up(address, name, by);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    auto socket = make_socket(at->ai_family, name);
    const int on = 1;
    ::setsockopt(socket->file(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(socket->file(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    error = try_to_connect(*socket, at->ai_addr, at->ai_addrlen, by);
    if (error == 0) return socket;
  }
  refuse_connection(name, error_text(error));
}

std::unique_ptr<Channel> connect_unix(const RedisAddress& address, const std::string& name,
                                      const Deadline& by) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (address.socket.size() >= sizeof to.sun_path) {
    throw SinkError{SinkError::Kind::wrong, name + ": the path of the socket is too long"};
  }
  std::memcpy(to.sun_path, address.socket.data(), address.socket.size());
  auto socket = make_socket(AF_UNIX, name);
  const int error = try_to_connect(*socket, reinterpret_cast<const sockaddr*>(&to), sizeof to, by);
  if (error != 0) refuse_connection(name, error_text(error));
  return socket;
}

}  // namespace

std::unique_ptr<Channel> connect_channel(const RedisAddress& address, const std::string& name,
                                         const Deadline& by) {
  if (!address.socket.empty()) return connect_unix(address, name, by);
  auto channel = connect_tcp(address, name, by);
  return address.tls ? make_tls(std::move(channel), address, name, by) : std::move(channel);
}

}  // namespace millrace::sink
