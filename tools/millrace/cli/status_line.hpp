#pragma once

#include <chrono>
#include <string_view>

namespace millrace::cli {

/**
 * @brief A line on stderr that shows what the program is doing. Each update overwrites it.
 *
 * Nothing is shown during the first second, or if stderr is not a terminal. The destructor erases
 * the line. Not thread-safe.
 */
class StatusLine {
 public:
  StatusLine();
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /** @brief Whether anything will ever be shown. */
  [[nodiscard]] bool shown() const noexcept { return shown_; }
  /** @brief Whether to call `show` now: at most ten times a second. */
  [[nodiscard]] bool due() const;
  void show(std::string_view text);
  [[nodiscard]] double seconds() const;  ///< since construction

 private:
  using Clock = std::chrono::steady_clock;

  const bool shown_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point drawn_ = begin_;
  bool on_screen_ = false;
};

}  // namespace millrace::cli
