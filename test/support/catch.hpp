#pragma once

/// @file
/// Catch2, version 2 or 3. Write tests for version 3. This file adds what version 2 lacks.

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>

using Catch::Approx;
#else
#include <catch2/catch.hpp>

namespace millrace::test {
/// Prints why the test case is skipped and ends it.
[[noreturn]] void skip(const std::string& reason);
}  // namespace millrace::test

namespace Catch::Matchers {
inline auto ContainsSubstring(const std::string& text) { return Contains(text); }
}  // namespace Catch::Matchers

/// Ends the test case, which then counts as skipped and not as passed. Takes one string.
#define SKIP(reason) ::millrace::test::skip(reason)
#endif
