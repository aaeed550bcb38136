#include "observe/explain/block_times.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>

namespace millrace {

using trace::AllocationLog;
using trace::EventKind;
using trace::LogEvent;
using trace::LoggedBlock;

namespace {

/** For each block of one of Millrace's traces: whether a stream other than its own has used it. */
std::vector<bool> used_elsewhere(const AllocationLog& log) {
  std::vector<bool> elsewhere(log.blocks.size());
  for (const trace::LoggedOrder& step : log.order) {
    if (step.kind == trace::OrderKind::used && step.stream != log.blocks[step.block].stream)
      elsewhere[step.block] = true;
  }
  for (const LogEvent& event : log.events) {
    const bool uses = event.kind == EventKind::allocate || event.kind == EventKind::free_requested;
    if (uses && event.stream != log.blocks[event.block].stream &&
        !log.streams[event.stream].for_all)
      elsewhere[event.block] = true;
  }
  return elsewhere;
}

/** Freed blocks that are not free yet, by device and address. */
class WaitingBlocks {
 public:
  void add(const LoggedBlock& block, std::uint32_t index) {
    blocks_[block.device][block.address] = {block.address + block.bytes, index};
  }

  void remove(const LoggedBlock& block, std::uint32_t index) {
    const auto found = blocks_[block.device].find(block.address);
    if (found != blocks_[block.device].end() && found->second.index == index)
      blocks_[block.device].erase(found);
  }

  /** Removes the blocks that overlap a range. */
  template <typename Found>
  void take(std::uint32_t device, std::uint64_t begin, std::uint64_t end, const Found& found) {
    ByAddress& blocks = blocks_[device];
    auto at = blocks.lower_bound(begin);
    if (at != blocks.begin() && std::prev(at)->second.end > begin) --at;
    while (at != blocks.end() && at->first < end) {
      found(at->second.index);
      at = blocks.erase(at);
    }
  }

 private:
  struct Waiting {
    std::uint64_t end = 0;
    std::uint32_t index = 0;
  };
  using ByAddress = std::map<std::uint64_t, Waiting>;

  std::unordered_map<std::uint32_t, ByAddress> blocks_;
};

}  // namespace

BlockTimes::BlockTimes(const AllocationLog& log)
    : allocated_(log.blocks.size(), kNever),
      freed_(log.blocks.size(), kNever),
      completed_(log.blocks.size(), kNever) {
  const bool completes = has_completions(log);
  const bool of_all_work = knows_order(log.format);
  const std::vector<bool> elsewhere = of_all_work ? used_elsewhere(log) : std::vector<bool>{};
  WaitingBlocks waiting;
  std::unordered_map<std::uint32_t, std::uint64_t> reserved;  // by device
  for (std::uint32_t i = 0; i < log.events.size(); ++i) {
    const LogEvent& event = log.events[i];
    const auto complete = [&](std::uint32_t block) { completed_[block] = i; };
    switch (event.kind) {
      case EventKind::allocate:
        allocated_[event.block] = i;
        if (of_all_work)
          waiting.take(event.device, event.address, event.address + event.bytes, complete);
        break;
      case EventKind::free_requested:
        freed_[event.block] = i;
        if (!completes || (of_all_work && !elsewhere[event.block])) {
          complete(event.block);
        } else if (of_all_work) {
          waiting.add(log.blocks[event.block], event.block);
        }
        break;
      case EventKind::free_completed:
        if (of_all_work) waiting.remove(log.blocks[event.block], event.block);
        if (completed_[event.block] == kNever) complete(event.block);
        break;
      case EventKind::segment_alloc:
        reserved[event.device] += event.bytes;
        break;
      case EventKind::segment_free: {
        std::uint64_t& held = reserved[event.device];
        held -= std::min(held, event.bytes);
        // This may also be a reset of the device, which completes no block.
        if (of_all_work && held == 0) waiting.take(event.device, 0, UINT64_MAX, complete);
        break;
      }
      default:
        break;
    }
  }
}

bool has_completions(const trace::AllocationLog& log) {
  return log.snapshot.has_value() || knows_order(log.format);
}

}  // namespace millrace
