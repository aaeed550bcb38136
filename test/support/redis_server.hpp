#pragma once

#include <optional>
#include <string>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/child_process.hpp"
#include "test/support/scratch_folder.hpp"

namespace millrace::test {

/// Returns why no RedisServer can run here; empty if one can.
[[nodiscard]] std::string no_redis_server();

/// Skips the test case if no RedisServer can run.
inline void need_redis_server() {
  if (const std::string why = no_redis_server(); !why.empty()) SKIP(why);
}

/// The test's own redis-server, on a free port of the loopback interface. Its data folder is
/// removed with it.
class RedisServer {
 public:
  enum class Keeps { nothing, all };  ///< after a restart: no data; all writes, from a file

  explicit RedisServer(Keeps keeps = Keeps::nothing, std::vector<std::string> options = {});

  /// Returns the address for sinks with this prefix.
  [[nodiscard]] std::string spec(const std::string& prefix = "test") const;
  /// Kills it at once, like a machine that fails.
  void kill() { process_->kill(); }
  /// Starts it on the same port with the data that it has kept.
  void start();
  void signal(int number) const { process_->signal(number); }

  /// Sends a command and returns the whole reply in the form of the protocol: "+OK\r\n".
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
