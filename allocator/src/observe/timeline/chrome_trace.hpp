#pragma once

#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "observe/timeline/events.hpp"

namespace millrace::timeline {

using Notes = std::vector<std::pair<std::string, std::string>>;

/** @brief Writes the document `millrace.timeline/1`: docs/timeline.md has its parts. */
void write_chrome_trace(std::ostream& out, const Events& events, const Notes& notes);

}  // namespace millrace::timeline
