#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace millrace::collective {

using Deadline = std::chrono::steady_clock::time_point;

/** @brief Owns a TCP socket. */
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) noexcept : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this != &other) {
      close();
      descriptor_ = std::exchange(other.descriptor_, -1);
    }
    return *this;
  }

  /** @throws std::runtime_error if the port is not available */
  [[nodiscard]] static Socket listen(std::uint16_t port);
  /** @return a socket that is not open if the host does not answer before the deadline */
  [[nodiscard]] static Socket connect(const std::string& host, std::uint16_t port, Deadline until);
  /** @return a socket that is not open if no connection arrives before the deadline */
  [[nodiscard]] Socket accept(Deadline until) const;

  /**
   * @brief Waits until one of the sockets has something to accept or to receive, or its other end
   *        has closed the connection.
   * @return false if the deadline has passed first
   */
  static bool await_any(std::span<const Socket* const> sockets, Deadline until);

  [[nodiscard]] bool open() const noexcept { return descriptor_ >= 0; }
  void close() noexcept;

  /** @return false if the other end has closed the connection */
  [[nodiscard]] bool send(std::span<const std::byte> bytes) noexcept;

  enum class Came { something, nothing, end };
  /** @brief Appends the bytes that arrive before the deadline to `to`. */
  [[nodiscard]] Came receive(std::vector<std::byte>& to, Deadline until) noexcept;

 private:
  [[nodiscard]] bool ready(Deadline until) const noexcept;

  int descriptor_ = -1;
};

}  // namespace millrace::collective
