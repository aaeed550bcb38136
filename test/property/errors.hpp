#pragma once

#include <cstdint>
#include <map>

#include "test/property/world.hpp"

namespace millrace::test {

/** @brief Returns the number of calls of each kind that the library makes in this program. */
std::map<Call, std::uint64_t> count_calls(const Setup& setup, const Program& program);

/** @brief Runs the program with one call failing. @throws std::logic_error if law 4 is broken */
void run_with_fault(const Setup& setup, const Program& program, LibraryFault::Fault fault,
                    Flaw flaw = Flaw::none);

}  // namespace millrace::test
