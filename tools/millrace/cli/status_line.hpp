#pragma once

#include <chrono>
#include <string_view>

namespace millrace::cli {

/**
 * @brief One line on stderr about what is under way, written over and over. Nothing if stderr is no
 *        terminal, or within the first second. Gone when the object goes. One thread at a time.
 */
class StatusLine {
 public:
  StatusLine();
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /** @brief Whether anything will ever be shown. */
  [[nodiscard]] bool shown() const noexcept { return shown_; }
  /** @brief Whether it is time to `show` something: ten times a second at most. */
  [[nodiscard]] bool due() const;
  void show(std::string_view text);
  [[nodiscard]] double seconds() const;  ///< since it was made

 private:
  using Clock = std::chrono::steady_clock;

  const bool shown_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point drawn_ = begin_;
  bool on_screen_ = false;
};

}  // namespace millrace::cli
