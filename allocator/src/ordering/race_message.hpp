#pragma once

#include <string>

#include "ordering/operation_log.hpp"

namespace millrace::ordering {

/** "h2d (op 91, stream copy)" */
std::string describe(const Op& op);

/** Returns a cheap edge that orders `second` after `first`. */
std::string missing_edge(const Op& first, const Op& second);

std::string conflict_message(const Op& first, const Op& second);
/** @param user  the stream or thread for which the memory was allocated */
std::string early_reuse_message(const Op& first, const Op& allocation, const Label& user);
std::string use_after_free_message(const Op& free, const Op& use);
std::string use_beside_free_message(const Op& use, const Op& free);
std::string use_before_allocate_message(const Op& allocation, const Op& use);

}  // namespace millrace::ordering
