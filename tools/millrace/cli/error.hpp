#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace millrace::cli {

/**
 * @brief Ends the program with `ExitCode::failed` and at most three lines on stderr:
 *
 *   millrace footprint: unknown allocator 'troch'
 *     where: --allocator
 *     right: torch, millrace, driver (did you mean torch?)
 *
 * Any other exception is shown as the first line alone.
 */
class UsageError : public std::runtime_error {
 public:
  /**
   * @param where  an option, a file or a line; "" leaves the line out
   * @param right  what would be right; "" leaves the line out
   */
  explicit UsageError(const std::string& what, std::string where = "", std::string right = "")
      : std::runtime_error(what), where_(std::move(where)), right_(std::move(right)) {}

  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  [[nodiscard]] const std::string& right() const noexcept { return right_; }

 private:
  std::string where_, right_;
};

/** @brief Several inputs were wrong. The user sees one message for each. */
class UsageErrors : public std::runtime_error {
 public:
  explicit UsageErrors(std::vector<UsageError> errors)
      : std::runtime_error("several inputs were refused"), errors_(std::move(errors)) {}

  [[nodiscard]] const std::vector<UsageError>& errors() const noexcept { return errors_; }

 private:
  std::vector<UsageError> errors_;
};

/**
 * @brief Thrown to end the program with `exit_code` and without a message.
 *
 * The code is an `ExitCode`, or 128 plus the number of a signal.
 */
struct Ended {
  int exit_code = 0;
};

}  // namespace millrace::cli
