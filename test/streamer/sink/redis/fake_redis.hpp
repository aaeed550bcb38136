#pragma once

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace millrace::test {

/// A server in place of Redis. It answers each command with fixed bytes, whatever they are.
class FakeRedis {
 public:
  /// The reply to a command, by the command's first word. Commands that begin a connection have
  /// default replies.
  using Answers = std::map<std::string, std::string>;

  /// @param a_byte  pause before each byte of a long reply except the first; 0: no pause
  explicit FakeRedis(Answers answers, std::chrono::milliseconds a_byte = {});
  ~FakeRedis();
  FakeRedis(const FakeRedis&) = delete;
  FakeRedis& operator=(const FakeRedis&) = delete;

  [[nodiscard]] std::string spec() const;

 private:
  void serve() const;
  void answer(int connection) const;

  [[nodiscard]] bool send(int connection, const std::string& reply) const;

  Answers answers_;
  std::chrono::milliseconds a_byte_;
  int listening_ = -1;
  int ended_[2] = {-1, -1};  ///< a pipe that the destructor closes
  int port_ = 0;
  std::thread server_;
};

/// In the format of the Redis protocol.
[[nodiscard]] std::string text_reply(const std::string& text);
[[nodiscard]] std::string array_reply(const std::vector<std::string>& elements);

}  // namespace millrace::test
