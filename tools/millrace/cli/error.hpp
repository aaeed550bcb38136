#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace millrace::cli {

/**
 * @brief The user is told, in at most three lines, and the program ends with `ExitCode::failed`:
 *
 *   millrace footprint: unknown allocator 'troch'
 *     where: --allocator
 *     right: torch, millrace, driver (did you mean torch?)
 *
 * Any other exception becomes its first line.
 */
class UsageError : public std::runtime_error {
 public:
  /** @param where  an option, a file, a line; "" if there is nothing to say
   *  @param right  what would be right; likewise */
  explicit UsageError(const std::string& what, std::string where = "", std::string right = "")
      : std::runtime_error(what), where_(std::move(where)), right_(std::move(right)) {}

  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  [[nodiscard]] const std::string& right() const noexcept { return right_; }

 private:
  std::string where_, right_;
};

/** @brief Several things were wrong, each of which the user is told. */
class UsageErrors : public std::runtime_error {
 public:
  explicit UsageErrors(std::vector<UsageError> errors)
      : std::runtime_error("several inputs were refused"), errors_(std::move(errors)) {}

  [[nodiscard]] const std::vector<UsageError>& errors() const noexcept { return errors_; }

 private:
  std::vector<UsageError> errors_;
};

/** @brief Ends the program with this exit code (`ExitCode`, or that of a signal); everything was
 * said. */
struct Ended {
  int exit_code = 0;
};

}  // namespace millrace::cli
