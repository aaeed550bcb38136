#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::trace {

/**
 * @brief Contradictions in a trace that can still be used.
 *
 * Equal findings are counted and not repeated, so that a broken trace with a million events gives
 * only a few lines.
 */
class Warnings {
 public:
  /**
   * @param finding  what is wrong, with the same text for equal findings
   * @param where    the place ("device_traces[0][17]"); only the first one is shown
   */
  void add(std::string_view finding, std::string_view where);

  [[nodiscard]] bool empty() const noexcept { return findings_.empty(); }
  /** @brief One line for each finding, in the order of first occurrence. */
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
