// What most tests include, compiled once for each target where MILLRACE_PRECOMPILE is on.

#include <random>
#include <thread>

#include "cmake/precompiled.hpp"
#include "test/support/catch.hpp"
