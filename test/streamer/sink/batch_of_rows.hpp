#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/streamer/sink.hpp"

namespace millrace::test {

/// One table whose rows have four numbers.
[[nodiscard]] StreamSchema four_wide_schema();

/// Rows `first` to `end` - 1 at `version`. The first number of each row is `value`.
[[nodiscard]] StepBatch batch_of_rows(Version version, Version after, std::int64_t first,
                                      std::int64_t end, float value);

/// The first number of each row in the sink.
[[nodiscard]] std::map<std::int64_t, float> values_in(Sink& sink);

/// The SinkError that a call threw.
struct Refusal {
  SinkError::Kind kind{};
  std::string what;
};
template <typename Call>
std::optional<Refusal> refusal_of(Call&& call) {
  try {
    call();
  } catch (const SinkError& error) {
    return Refusal{error.kind(), error.what()};
  }
  return std::nullopt;
}

}  // namespace millrace::test
