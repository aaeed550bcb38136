// What most sources of the program include, compiled once where MILLRACE_PRECOMPILE is on.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
