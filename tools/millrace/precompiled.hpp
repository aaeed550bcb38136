// Headers that most sources of the program include. They are compiled once if MILLRACE_PRECOMPILE
// is on.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
