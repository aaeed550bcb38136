#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace millrace::trace {

/**
 * @brief A file does not have the expected format.
 *
 * `what()` is one line: file, place, what is wrong there, and what was expected.
 */
class ParseError : public std::runtime_error {
 public:
  /**
   * @param source   name of the file, as the user gave it
   * @param place    the place in it: "line 12", "byte 345" (after decompression), or a path of keys
   *                 such as "segments[3].blocks[0].size"; empty for the whole file
   * @param problem  what is wrong, and what was expected
   */
  ParseError(const std::string& source, const std::string& place, const std::string& problem)
      : std::runtime_error{source + ": " + (place.empty() ? "" : place + ": ") + problem},
        place_{place} {}

  /** @brief The same error of a file whose format was recognized. */
  ParseError(const ParseError& error, std::string format)
      : std::runtime_error{error}, place_{error.place_}, format_{std::move(format)} {}

  [[nodiscard]] const std::string& place() const noexcept { return place_; }
  /** @brief The file's format in words, as `trace_formats` has it; "" if it was not recognized. */
  [[nodiscard]] const std::string& format() const noexcept { return format_; }

 private:
  std::string place_, format_;
};

}  // namespace millrace::trace
