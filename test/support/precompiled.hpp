// Headers that most tests include, compiled once for each target if MILLRACE_PRECOMPILE is on.

#include <random>
#include <thread>

#include "cmake/precompiled.hpp"
#include "test/support/catch.hpp"
