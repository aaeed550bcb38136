#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

/// @file
/// The only parser of JSON: strict RFC 8259, without recursion, in one pass. It allocates one
/// bit for each level of nesting. A handler receives the values.

namespace millrace::text {

struct JsonRules {
  std::size_t max_depth = 64;  ///< maximum nesting of lists and objects
  /// Whether strings that are not UTF-8, and escapes of half a surrogate pair, are errors. Python
  /// writes both if a file name is not UTF-8.
  bool judge_strings = true;
};

/** @brief Thrown by a handler about the value that it got. `what()` describes the problem. */
class JsonProblem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/**
 * @brief A document is not accepted. `what()` says why; `line()` and `column()` say where: both
 *        from 1, the column in bytes.
 */
class JsonError : public std::runtime_error {
 public:
  JsonError(const std::string& problem, std::size_t line, std::size_t column)
      : std::runtime_error{problem}, line_{line}, column_{column} {}

  [[nodiscard]] std::size_t line() const noexcept { return line_; }
  [[nodiscard]] std::size_t column() const noexcept { return column_; }

 private:
  std::size_t line_, column_;
};

/** @brief Receives the values in the order of the document. Each function may throw JsonProblem. */
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  /**
   * @brief Receives a number of any size. @param whole  true if it has no fraction and no exponent
   */
  virtual void number(std::string_view digits, bool whole) = 0;
  virtual void string(std::string_view text) = 0;  ///< refers to the document's text
  virtual void key(std::string_view text) = 0;     ///< refers to the document's text
  virtual void begin_object() = 0;
  virtual void begin_list() = 0;
  virtual void end() = 0;  ///< ends the innermost object or list
};

/**
 * @brief Parses a document and passes its values to `handler`.
 * @param text     the document. Strings are unescaped in place, so that handlers can keep views of
 *                 the text instead of copies.
 * @param handler  receives the values
 * @param rules    what is accepted
 * @throws JsonError if the document is not accepted, or the handler throws JsonProblem
 */
void parse_json(std::string& text, JsonHandler& handler, const JsonRules& rules = {});

}  // namespace millrace::text
