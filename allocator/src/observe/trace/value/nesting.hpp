#pragma once

#include <cstddef>

#include "observe/trace/value/value_store.hpp"

namespace millrace::trace {

/** @throws std::invalid_argument, with the reason, if a container that the root reaches holds
 * itself, or nesting is deeper than `max_depth`. Takes a byte for each container. */
void check_nesting(const ValueStore& store, std::size_t max_depth);

}  // namespace millrace::trace
