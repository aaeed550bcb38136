#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "millrace/observe/trace/read_trace.hpp"
#include "millrace/observe/trace/value_tree.hpp"

namespace millrace::test {

/// Returns the value as JSON: tuples become arrays, bytes become strings.
[[nodiscard]] nlohmann::json to_json(const trace::Value& value);

/// Returns the message of the ParseError that `read` throws, or "" if it throws none.
template <typename Read>
[[nodiscard]] std::string refusal(Read&& read);

/// Returns why parse_trace refuses these bytes as a file named "file", or "" if it accepts them.
[[nodiscard]] std::string refusal_of(const std::string& bytes);

/// Returns a snapshot of one device as JSON, without stack frames.
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
