#pragma once

#include <string>
#include <vector>

#include "cli/text.hpp"
#include "replay/rows.hpp"

namespace millrace::cli {

/** @brief The advice for a device, at most three lines; empty if no row has figures. The lines are
 *         the bytes that PyTorch's decisions (or another program as it ran) reserve, the allocator
 *         that reserves least, and a bound for any other allocator. */
[[nodiscard]] std::vector<std::string> replay_advice(const ReplayedDevice& device,
                                                     const Painter& paint);

}  // namespace millrace::cli
