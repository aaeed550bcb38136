#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

namespace millrace::cli {

/**
 * @brief One line on stderr about how far long work is. Nothing if stderr is no terminal, or if
 *        all is done within a second. Gone when the object goes. From any thread.
 */
class Progress {
 public:
  /** @param all  how many pieces there are; 0: not known */
  Progress(std::string what, std::size_t all);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /** @brief One piece is done. @param about  which, for people */
  void advance(std::string_view about = {});

 private:
  using Clock = std::chrono::steady_clock;

  const std::string what_;
  const std::size_t all_;
  const bool shown_;
  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;
  Clock::time_point drawn_ = begin_;
  std::size_t done_ = 0;
  bool on_screen_ = false;
};

}  // namespace millrace::cli
