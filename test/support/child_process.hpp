#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace millrace::test {

/// A program that runs beside the test. It is killed with this object, or when the thread that
/// started it ends for any reason.
class ChildProcess {
 public:
  /// @param words  program name and arguments. The output is appended to `log`.
  /// @param talks  whether standard input and output are pipes to this object; then only errors go
  ///               to the log
  ChildProcess(const std::string& path, const std::vector<std::string>& words,
               const std::string& log, bool talks = false);
  ~ChildProcess() { kill(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  [[nodiscard]] int id() const noexcept { return process_; }
  /// Returns whether it has not ended by itself.
  [[nodiscard]] bool running();
  /// Sends a signal. After SIGSTOP, none of its threads runs when this returns.
  void signal(int number) const;
  /// Sends SIGKILL and waits. Does nothing if it has ended.
  void kill();

  void send_line(const std::string& line);
  /// Returns its next line, or nothing after ten seconds without one.
  [[nodiscard]] std::optional<std::string> line();

 private:
  int process_ = 0;  ///< 0 after it was waited for
  int to_ = -1, from_ = -1;
  std::string read_;
};

/// Returns the path of a program as the shell finds it; empty if it finds none.
[[nodiscard]] std::string find_program(const std::string& name);

/// Returns a free port of the loopback interface.
[[nodiscard]] int free_port();

}  // namespace millrace::test
