#pragma once

#include <stdexcept>
#include <string>

namespace millrace {

/**
 * @brief The ranks of a group can not go on together: one failed, left, is out of step or silent.
 *
 * Every rank that needs it gets one, and of one cause all name the same rank. The group is of no
 * use from then on.
 */
class CollectiveError : public std::runtime_error {
 public:
  CollectiveError(unsigned rank, const std::string& what) : std::runtime_error(what), rank_(rank) {}

  [[nodiscard]] unsigned rank() const noexcept { return rank_; }  ///< whose fault it is

 private:
  unsigned rank_;
};

}  // namespace millrace
