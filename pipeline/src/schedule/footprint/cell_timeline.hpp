#pragma once

#include <string_view>

#include "millrace/pipeline/data/copy_strategy.hpp"
#include "schedule/footprint/cell_device.hpp"

namespace millrace {

/** @brief A timeline on a device: it lets go before the device goes, also when a run fails. */
class CellTimeline {
 public:
  /** @param timeline  gets notes of what it is of; null: nothing is recorded */
  CellTimeline(Timeline* timeline, CellDevice& device, std::string_view allocator,
               CopyMethod method);
  ~CellTimeline();
  CellTimeline(const CellTimeline&) = delete;
  CellTimeline& operator=(const CellTimeline&) = delete;

 private:
  Timeline* timeline_;
};

}  // namespace millrace
