#pragma once

#include <string>

namespace millrace::test {

/// A terminal whose output a test reads.
class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// The file that a program writes to.
  [[nodiscard]] std::string name() const;
  /// Sets the number of characters in a line.
  void resize(unsigned short columns) const;
  /// What was written since the last call, up to and including `text`, or until no program writes
  /// any more.
  [[nodiscard]] std::string read_until(const std::string& text);
  [[nodiscard]] std::string read_all() { return read_until(std::string(1, '\0')); }

 private:
  int descriptor_;
};

}  // namespace millrace::test
