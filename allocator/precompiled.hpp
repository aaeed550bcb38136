// What most sources of the allocator include, compiled once where MILLRACE_PRECOMPILE is on.

#include <nlohmann/json.hpp>

#include "text/formatting.hpp"
