#pragma once

#include "test/property/interpreter.hpp"

namespace millrace::test {

/** @brief Runs the program, reads and frees what is left, and checks laws 1 and 2 on the way.
 * @throws std::logic_error if one is broken */
void run(World& world, const Program& program);

/** @brief Trims, and checks that nothing is left. @throws std::logic_error if law 3 is broken */
void run_to_nothing(World& world, const Program& program);

}  // namespace millrace::test
