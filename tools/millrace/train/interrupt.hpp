#pragma once

#include <csignal>

namespace millrace::cli {

/** @brief While it lives, Ctrl-C (and SIGTERM) only asks to stop; the second time it kills. */
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  [[nodiscard]] bool asked() const noexcept;
  /** @brief Of a program that this ended, as a shell has it: 128 and the signal, 130 if another
   *         process was asked. */
  [[nodiscard]] int exit_code() const noexcept;

 private:
  struct sigaction before_int_, before_term_;
};

}  // namespace millrace::cli
