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
 * @brief A status line of long work: how many of its pieces are done, and for how long it has run.
 *
 * The line is updated also while one piece takes long. Call it from any thread.
 */
class Progress {
 public:
  /** @param all  how many pieces there are */
  Progress(std::string what, std::size_t all);

  /** @brief Counts a piece as done. @param about  which one, as the line shows it */
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
  std::jthread shows_;  ///< the last member, as its thread uses all others
};

}  // namespace millrace::cli
