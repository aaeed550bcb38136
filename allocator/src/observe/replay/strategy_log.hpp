#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "millrace/observe/trace/allocation_log.hpp"
#include "millrace/observe/what_if.hpp"
#include "observe/replay/known_completions.hpp"

namespace millrace {

/** @brief Allocations that are made in another way together. */
struct WhatIfGroup {
  std::optional<std::uint32_t> stream;  ///< nothing: all streams but `to`
  std::uint32_t to = 0;
  std::optional<trace::StackTable::Id> stack;  ///< nothing: all of the streams

  [[nodiscard]] bool has(const trace::AllocationLog& log, const trace::LoggedBlock& block) const {
    const bool of_stream = stream ? block.stream == *stream
                                  : block.stream != to && !log.streams[block.stream].for_all &&
                                        block.device == log.streams[to].device;
    return of_stream && (!stack || block.stack == *stack);
  }
};

/**
 * @brief The log of a program that makes a group of its allocations in another way.
 *
 * Everything else stays in its place: the order of the program's streams, its other requests, and
 * the frees.
 */
class StrategyLog {
 public:
  /** @param known  of `log`; both outlive this object */
  StrategyLog(const trace::AllocationLog& log, const KnownCompletions& known,
              const WhatIfGroup& group, WhatIfStrategy strategy);

  [[nodiscard]] const trace::AllocationLog& log() const noexcept { return result_; }
  [[nodiscard]] const WhatIfCost& cost() const noexcept { return cost_; }
  /** @brief Blocks that are made in another way than before. */
  [[nodiscard]] std::size_t changed() const noexcept { return changed_; }

 private:
  /** Work that may be the last use of a buffer. */
  struct LastUse {
    std::size_t position = 0;
    std::uint64_t marker = 0;  // that covers it
  };
  /** A buffer that is kept, and the work that has to be over before it is used again. */
  struct Buffer {
    std::uint32_t block = 0;  // of the result
    std::uint64_t bytes = 0;
    bool free = false;
    std::uint32_t last = trace::LogEvent::kNoBlock;  // of the log, that was in it; while free
    std::map<std::uint32_t, LastUse> last_uses;      // by stream; while free
  };
  struct Handed {
    std::uint32_t block = 0;
    std::optional<std::uint64_t> marker;  // the first that covers its allocation
  };

  [[nodiscard]] bool keeps_buffers() const;
  [[nodiscard]] bool is_of_group(std::uint32_t block) const;
  void take(trace::LoggedOrder step);
  void take(const trace::LogEvent& event);
  void allocate(trace::LogEvent event);
  void free(trace::LogEvent event);

  /** @return the marker */
  std::uint64_t mark(const trace::LogEvent& at, std::uint32_t stream);
  /** @brief The stream of an allocation waits for work of another, before it. */
  void wait(const trace::LogEvent& before, std::uint32_t other, LastUse work);
  void hand_over(const trace::LoggedOrder& wait);

  [[nodiscard]] std::uint64_t place_of(const trace::LoggedBlock& block) const;
  [[nodiscard]] Buffer* free_buffer(std::vector<Buffer>& buffers,
                                    const trace::LoggedBlock& wanted) const;
  [[nodiscard]] static bool is_ready(const Buffer& buffer, std::uint32_t stream);
  void use_buffer(const trace::LogEvent& event);
  void keep_buffer(const trace::LogEvent& event);
  void add_event(trace::LogEvent event);
  void add_step(trace::LoggedOrder step);
  std::uint32_t add_block(std::uint64_t bytes, const trace::LoggedBlock& like);

  const trace::AllocationLog& log_;
  const KnownCompletions& known_;
  const WhatIfGroup group_;
  const WhatIfStrategy strategy_;
  trace::AllocationLog result_;
  WhatIfCost cost_;
  std::size_t changed_ = 0;
  std::size_t position_ = 0;  // of the step or event that is taken
  std::uint64_t markers_ = 0;
  std::int64_t waited_until_ = INT64_MIN;  // the end of the waits so far

  std::vector<Handed> to_hand_over_;
  std::set<std::uint32_t> handed_over_;
  std::map<std::uint64_t, std::vector<Buffer>> buffers_;                      // by place
  std::map<std::uint32_t, std::pair<std::uint64_t, std::size_t>> in_buffer_;  // by block
  std::map<std::uint32_t, std::set<std::uint32_t>> uses_;                     // streams, by block
};

}  // namespace millrace
