#pragma once

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace millrace::test {

/// Something that listens where a Redis would be, and answers each command with the same bytes,
/// whatever they are.
class FakeRedis {
 public:
  /// What it answers to a command, by its first word. Those that a connection begins with have
  /// answers of their own.
  using Answers = std::map<std::string, std::string>;

  /// @param a_byte  what it waits before each byte of a reply but the first; 0: they come at once
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
  int ended_[2] = {-1, -1};  ///< a pipe that is closed at the end
  int port_ = 0;
  std::thread server_;
};

/// As the protocol has them.
[[nodiscard]] std::string text_reply(const std::string& text);
[[nodiscard]] std::string array_reply(const std::vector<std::string>& elements);

}  // namespace millrace::test
