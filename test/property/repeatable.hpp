#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "test/property/world.hpp"

namespace millrace::test {

/** @brief The results that must be the same in every run of a program. */
struct Recorded {
  std::vector<std::size_t> offsets;
  std::vector<std::pair<TracePosition, TracePosition>> lifetimes;
  std::uint64_t calls;
  Nanoseconds end;
  friend bool operator==(const Recorded&, const Recorded&) = default;
};

Recorded record(const Setup& setup, const Program& program, Flaw flaw = Flaw::none);

}  // namespace millrace::test
