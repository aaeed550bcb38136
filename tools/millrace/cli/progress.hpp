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
 * @brief A status line about how many pieces of long work are done, and for how long it has been
 *        under way. It moves while a piece takes its time. From any thread.
 */
class Progress {
 public:
  /** @param all  how many pieces there are */
  Progress(std::string what, std::size_t all);

  /** @brief One piece is done. @param about  which, for people */
  void advance(std::string_view about = {});
  /** @brief A step of a piece is done. */
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
  std::jthread shows_;  ///< last: it uses all others
};

}  // namespace millrace::cli
