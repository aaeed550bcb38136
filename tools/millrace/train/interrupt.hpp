#pragma once

#include <csignal>

namespace millrace::cli {

/** @brief During its lifetime, the first Ctrl-C or SIGTERM asks the run to stop; the second kills
 *         it. */
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  [[nodiscard]] bool asked() const noexcept;
  /** @brief The exit code of an interrupted program: 128 plus the signal's number, or 130 if only
   *         another process received the signal. */
  [[nodiscard]] int exit_code() const noexcept;

 private:
  struct sigaction before_int_, before_term_;
};

}  // namespace millrace::cli
