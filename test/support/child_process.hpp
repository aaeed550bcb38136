#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace millrace::test {

/// A program that runs beside the test. It is killed with this object, and with the thread that
/// started it, however that ends: nothing is left behind.
class ChildProcess {
 public:
  /// @param words  what it is called, and arguments. Its output goes to `log`, appended.
  /// @param talks  its standard input and output are pipes to here, and only errors go to the log
  ChildProcess(const std::string& path, const std::vector<std::string>& words,
               const std::string& log, bool talks = false);
  ~ChildProcess() { kill(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  [[nodiscard]] int id() const noexcept { return process_; }
  /// Whether it has not ended by itself.
  [[nodiscard]] bool running();
  /// SIGSTOP: when this returns, none of its threads runs.
  void signal(int number) const;
  /// SIGKILL, and waits. Nothing if it has ended.
  void kill();

  void tell(const std::string& line);
  /// Its next line; nothing if there is none in ten seconds.
  [[nodiscard]] std::optional<std::string> line();

 private:
  int process_ = 0;  ///< 0: it was waited for
  int to_ = -1, from_ = -1;
  std::string read_;
};

/// Where a program is, as the shell would find it; empty: nowhere.
[[nodiscard]] std::string find_program(const std::string& name);

/// A port of the loopback that nobody listens on now.
[[nodiscard]] int free_port();

}  // namespace millrace::test
