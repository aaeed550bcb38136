#pragma once

#include <string>
#include <vector>

#include "cli/text.hpp"
#include "replay/rows.hpp"

namespace millrace::cli {

/** @brief The advice for a device, at most three lines: what PyTorch's decisions reserve, or
 * another program as it ran; the allocator that reserves least; and a bound for any other. Empty if
 *         no row has figures. */
[[nodiscard]] std::vector<std::string> replay_advice(const ReplayedDevice& device,
                                                     const Painter& paint);

}  // namespace millrace::cli
