#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "millrace/streamer/sink.hpp"

namespace millrace::test {

using Versions = std::map<std::int64_t, Version>;

/// The version of each row.
inline Versions versions_in(Sink& sink) {
  Versions versions;
  sink.read([&](const RowRecord& row) { versions[row.row] = row.version; });
  return versions;
}

/// The versions after `steps` steps, of which step n writes rows n and n + 1.
inline Versions versions_after(std::uint64_t steps) {
  Versions versions;
  for (std::uint64_t step = 1; step <= steps; ++step) {
    for (const std::uint64_t row : {step, step + 1}) {
      versions[static_cast<std::int64_t>(row)] = {1, step};
    }
  }
  return versions;
}

template <typename Body>
std::optional<SinkError::Kind> kind_of_failure(Body&& body) {
  try {
    body();
  } catch (const SinkError& error) {
    return error.kind();
  }
  return std::nullopt;
}

}  // namespace millrace::test
