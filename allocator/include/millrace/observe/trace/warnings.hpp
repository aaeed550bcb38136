#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::trace {

/**
 * @brief What does not add up in a trace that can be used all the same. Equal findings are counted,
 * not repeated, so a broken trace of a million events still gives a few lines.
 */
class Warnings {
 public:
  /**
   * @param finding  what is wrong, in words that do not vary from case to case
   * @param where    this case ("device_traces[0][17]"); the first is shown
   */
  void add(std::string_view finding, std::string_view where);

  [[nodiscard]] bool empty() const noexcept { return findings_.empty(); }
  /** @brief One line for each finding, in the order of their first cases. */
  [[nodiscard]] std::vector<std::string> lines() const;

 private:
  struct Finding {
    std::string text;
    std::string first;
    std::size_t cases;
  };
  std::vector<Finding> findings_;
};

}  // namespace millrace::trace
