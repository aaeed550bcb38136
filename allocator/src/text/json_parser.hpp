#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

/// @file
/// The one reader of JSON: strict RFC 8259, without recursion, in one pass and in no memory of its
/// own but a bit for each level. What becomes of the values is the handler's.

namespace millrace::text {

struct JsonRules {
  std::size_t max_depth = 64;  ///< lists and objects inside each other
  /// Whether a string that is not UTF-8, or an escape of half a surrogate pair, is an error. Python
  /// writes both where a file name is not UTF-8.
  bool judge_strings = true;
};

/** @brief What a handler throws about the value that it was given. `what()` says what is wrong. */
class JsonProblem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/** @brief A document is refused. `what()` says why, `line()` and `column()` where: from 1, the
 * column in bytes. */
class JsonError : public std::runtime_error {
 public:
  JsonError(const std::string& problem, std::size_t line, std::size_t column)
      : std::runtime_error{problem}, line_{line}, column_{column} {}

  [[nodiscard]] std::size_t line() const noexcept { return line_; }
  [[nodiscard]] std::size_t column() const noexcept { return column_; }

 private:
  std::size_t line_, column_;
};

/** @brief Gets the values in the order of the document. Each function may throw JsonProblem. */
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  /** @param whole  without fraction and exponent. The size is not judged. */
  virtual void number(std::string_view digits, bool whole) = 0;
  virtual void string(std::string_view text) = 0;  ///< a stretch of the document
  virtual void key(std::string_view text) = 0;     ///< likewise
  virtual void begin_object() = 0;
  virtual void begin_list() = 0;
  virtual void end() = 0;  ///< of the innermost object or list
};

/**
 * @param text  the document. Strings are unescaped where they stand, so that handlers can keep
 *              stretches of it instead of copies.
 * @throws JsonError
 */
void parse_json(std::string& text, JsonHandler& handler, const JsonRules& rules = {});

}  // namespace millrace::text
