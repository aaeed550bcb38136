#pragma once

#include <stdexcept>
#include <string>

namespace millrace {

/**
 * @brief The ranks of a group cannot continue together: a rank failed, left, called another
 *        operation than the others, or did not answer in time.
 *
 * Every rank that needs the failed rank gets this error, and all of them name the same rank. The
 * group cannot be used afterwards.
 */
class CollectiveError : public std::runtime_error {
 public:
  CollectiveError(unsigned rank, const std::string& what) : std::runtime_error(what), rank_(rank) {}

  [[nodiscard]] unsigned rank() const noexcept { return rank_; }  ///< the rank that caused it

 private:
  unsigned rank_;
};

}  // namespace millrace
