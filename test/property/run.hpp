#pragma once

#include "test/property/interpreter.hpp"

namespace millrace::test {

/** @brief Runs the program, reads and frees the remaining buffers, and checks laws 1 and 2.
 * @throws std::logic_error if one is broken */
void run(World& world, const Program& program);

/** @brief Like `run`. Then trims and checks that no memory is left.
 * @throws std::logic_error if law 3 is broken */
void run_to_nothing(World& world, const Program& program);

}  // namespace millrace::test
