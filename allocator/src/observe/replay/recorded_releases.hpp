#pragma once

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/**
 * @brief Whether the program emptied PyTorch's cache with this event, the last of the segments that
 *        went back.
 *
 * PyTorch gives segments back by itself only for a request that it then takes a segment for, or
 * fails; where neither follows, the program asked for it.
 * @param event  one of `log.events`
 */
[[nodiscard]] bool program_emptied_cache(const trace::AllocationLog& log,
                                         const trace::LogEvent& event);

}  // namespace millrace
