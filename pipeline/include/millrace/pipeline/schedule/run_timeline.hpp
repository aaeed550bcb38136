#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "millrace/observe/timeline.hpp"
#include "millrace/pipeline/data/copy_strategy.hpp"

namespace millrace {

class RunDevice;

/** @brief What a timeline notes about its run. */
struct RunNotes {
  std::string device;
  bool modelled = true;  ///< times are those of a profile
  std::string allocator;
  CopyMethod copy = CopyMethod::side_stream;
  std::vector<std::pair<std::string, std::string>> more{};  ///< keys and values
};

/** @brief Attaches a timeline to the devices of a run, and stops it before they are destroyed, also
 *         when the run fails. */
class RunTimeline {
 public:
  /** @param timeline  null: nothing is recorded
   *  @param machine   of virtual devices, whose work is recorded; null for GPUs */
  RunTimeline(Timeline* timeline, const RunNotes& notes, VirtualMachine* machine,
              std::span<Device* const> devices);
  /** @brief On one device, with its name in the notes. */
  RunTimeline(Timeline* timeline, RunDevice& device, std::string allocator, CopyMethod copy);
  ~RunTimeline();
  RunTimeline(const RunTimeline&) = delete;
  RunTimeline& operator=(const RunTimeline&) = delete;

 private:
  Timeline* const timeline_;
};

}  // namespace millrace
