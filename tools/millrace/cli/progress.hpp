#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "cli/status_line.hpp"

namespace millrace::cli {

/**
 * @brief A status line for long work: the number of finished pieces, and the time since the start.
 *
 * The line is also updated while one piece takes long. Thread-safe.
 */
class Progress {
 public:
  /** @param all  number of pieces */
  Progress(std::string what, std::size_t all);

  /** @brief Counts a piece as done. @param about  the name of the piece, for the line */
  void advance(std::string_view about = {});
  /** @brief Counts a step of the current piece as done. */
  void step();

 private:
  void show_while_it_lasts(const std::stop_token& stop);
  void show();

  const std::string what_;
  const std::size_t all_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  StatusLine line_;
  std::size_t done_ = 0, steps_ = 0;
  std::string about_;
  std::jthread shows_;  ///< the last member, because its thread uses all others
};

}  // namespace millrace::cli
