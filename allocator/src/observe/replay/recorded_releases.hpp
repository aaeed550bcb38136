#pragma once

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/**
 * @brief Returns whether the program itself emptied PyTorch's cache with this event, which is the
 *        last of a series of released segments.
 *
 * PyTorch releases segments on its own only for a request that then gets a new segment or fails. If
 * neither follows, the program released them.
 * @param event  one of `log.events`
 */
[[nodiscard]] bool program_emptied_cache(const trace::AllocationLog& log,
                                         const trace::LogEvent& event);

}  // namespace millrace
