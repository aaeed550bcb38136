#pragma once

#include <functional>

#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/schedule/training_device.hpp"

namespace millrace {

/**
 * @brief Runs `body` for each rank, with all ranks in this process.
 *
 * Each rank is an actor with its own virtual device. All devices belong to one virtual machine,
 * linked as the device's profile says.
 * @param options  `check_races` uses one checker for all devices; the timeline shows all devices
 *                 and the memory of rank 0
 * @param ranks    number of ranks
 * @throws std::invalid_argument for a device that is not virtual; otherwise like `run_ranks`
 */
void run_training_ranks(
    const TrainingOptions& options, unsigned ranks,
    const std::function<void(TrainingDevice& device, ProcessGroup& group)>& body);

}  // namespace millrace
