#pragma once

#include <functional>

#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/schedule/training_device.hpp"

namespace millrace {

/**
 * @brief Runs `body` for each of so many ranks of this process: each an actor with a virtual device
 *        of its own, all on one machine, with the link that the device's profile has between peers.
 * @param options  with `check_races` one checker sees all devices; a timeline has all of them, and
 *                 the memory of rank 0
 * @throws as `run_ranks`; std::invalid_argument for a device that is not virtual
 */
void run_training_ranks(
    const TrainingOptions& options, unsigned ranks,
    const std::function<void(TrainingDevice& device, ProcessGroup& group)>& body);

}  // namespace millrace
