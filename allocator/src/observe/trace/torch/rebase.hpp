#pragma once

#include <string>

#include "millrace/observe/trace/torch_snapshot.hpp"

namespace millrace::trace {

/**
 * @brief Brings addresses beyond 48 bits (5-level paging has 57) down to what allocators here take:
 * all less the same `base`, which is a multiple of 1 TiB, so that every alignment stays.
 * @param warnings  gets a line about the base
 * @throws ParseError if they lie further apart than 47 bits
 */
void rebase(TorchSnapshot& snapshot, const std::string& source, Warnings& warnings);

}  // namespace millrace::trace
