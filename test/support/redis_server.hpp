#pragma once

#include <optional>
#include <string>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/child_process.hpp"
#include "test/support/scratch_folder.hpp"

namespace millrace::test {

/// Why there can be no RedisServer here; empty: there can.
[[nodiscard]] std::string no_redis_server();

/// Skips the test case where there can be no RedisServer.
inline void need_redis_server() {
  if (const std::string why = no_redis_server(); !why.empty()) SKIP(why);
}

/// A redis-server of this test's own, on a free port of the loopback, its data in a folder that
/// goes with it.
class RedisServer {
 public:
  enum class Keeps { nothing, all };  ///< over a restart: no persistence; each write is in a file

  explicit RedisServer(Keeps keeps = Keeps::nothing, std::vector<std::string> options = {});

  /// As sinks are written, with the prefix `prefix`.
  [[nodiscard]] std::string spec(const std::string& prefix = "test") const;
  /// Kills it at once, as a machine that fails.
  void kill() { process_->kill(); }
  /// Starts it on the same port with what it has kept.
  void start();
  void signal(int number) const { process_->signal(number); }

  /// Sends a command, and gives the whole reply as the protocol has it: "+OK\r\n".
  std::string command(const std::vector<std::string>& words) const;

 private:
  bool try_start();

  ScratchFolder folder_;
  Keeps keeps_;
  std::vector<std::string> options_;
  int port_ = 0;
  std::optional<ChildProcess> process_;
};

}  // namespace millrace::test
