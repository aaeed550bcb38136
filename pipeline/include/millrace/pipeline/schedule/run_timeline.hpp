#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "millrace/observe/timeline.hpp"
#include "millrace/pipeline/data/copy_strategy.hpp"

namespace millrace {

class RunDevice;

/** @brief Facts about a run that are written into its timeline. */
struct RunNotes {
  std::string device;
  bool modeled = true;  ///< times are modeled by a profile, not measured
  std::string allocator;
  CopyMethod copy = CopyMethod::side_stream;
  std::vector<std::pair<std::string, std::string>> more{};  ///< keys and values
};

/** @brief Attaches a timeline to the devices of a run, and stops it before they are destroyed, also
 *         when the run fails. */
class RunTimeline {
 public:
  /** @param timeline  nullptr: nothing is recorded
   *  @param notes     facts about the run
   *  @param machine   the machine of virtual devices, whose work is recorded; nullptr for GPUs
   *  @param devices   the devices whose host calls are recorded */
  RunTimeline(Timeline* timeline, const RunNotes& notes, VirtualMachine* machine,
              std::span<Device* const> devices);
  /** @brief Records a run on one device, whose name is added to the notes. */
  RunTimeline(Timeline* timeline, RunDevice& device, std::string allocator, CopyMethod copy);
  ~RunTimeline();
  RunTimeline(const RunTimeline&) = delete;
  RunTimeline& operator=(const RunTimeline&) = delete;

 private:
  Timeline* const timeline_;
};

}  // namespace millrace
