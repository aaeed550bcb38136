#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "millrace/observe/trace/read_trace.hpp"
#include "millrace/observe/trace/value_tree.hpp"

namespace millrace::test {

/// The value as JSON: tuples become arrays, bytes become strings.
[[nodiscard]] nlohmann::json to_json(const trace::Value& value);

/// A one-line message of ParseError, or "" if `read` does not throw one.
template <typename Read>
[[nodiscard]] std::string refusal(Read&& read);

/// Why parse_trace refuses these bytes, as a file named "file"; "" if it does not.
[[nodiscard]] std::string refusal_of(const std::string& bytes);

/// A snapshot of one device without recorded stack frames.
[[nodiscard]] nlohmann::json to_json(const trace::TorchSnapshot& snapshot);

}  // namespace millrace::test

#include "millrace/observe/trace/parse_error.hpp"

template <typename Read>
std::string millrace::test::refusal(Read&& read) {
  try {
    static_cast<void>(read());
  } catch (const trace::ParseError& problem) {
    return problem.what();
  }
  return "";
}
