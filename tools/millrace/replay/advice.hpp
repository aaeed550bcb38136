#pragma once

#include <string>
#include <vector>

#include "cli/text.hpp"
#include "replay/rows.hpp"

namespace millrace::cli {

/** @brief The advice for a device, at most three lines: where PyTorch's decisions stand, the
 *         allocator that reserves least, and what is left for any other. Empty if no row has
 *         figures. */
[[nodiscard]] std::vector<std::string> replay_advice(const ReplayedDevice& device,
                                                     const Painter& paint);

}  // namespace millrace::cli
