#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "millrace/streamer/record.hpp"

namespace millrace {

/**
 * @brief The steps that made a table what it is: of each epoch up to which one. A checkpoint keeps
 *        it, and who resumes from it goes on with it, so that rows of steps that were made and then
 *        given up are known.
 */
class Lineage {
 public:
  /** @brief Goes on to `version`, of the newest epoch or a newer one. */
  void extend(Version version);
  /** @brief Whether a row of this version has the value that the table had then. */
  [[nodiscard]] bool contains(Version version) const noexcept;
  /** @brief The newest; {}: there is none. */
  [[nodiscard]] Version last() const noexcept;
  [[nodiscard]] bool empty() const noexcept { return ends_.empty(); }
  /** @brief Of each epoch the last step, ascending. */
  [[nodiscard]] const std::vector<Version>& ends() const noexcept { return ends_; }

  friend bool operator==(const Lineage&, const Lineage&) = default;

 private:
  std::vector<Version> ends_;
};

/** @brief "1763750000:120 1763760000:200"; empty: none */
[[nodiscard]] std::string to_string(const Lineage& lineage);
/** @throws std::invalid_argument */
[[nodiscard]] Lineage parse_lineage(std::string_view text);

}  // namespace millrace
