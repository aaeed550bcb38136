#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "millrace/observe/trace/allocation_log.hpp"
#include "millrace/observe/what_if.hpp"
#include "observe/replay/known_completions.hpp"

namespace millrace {

/** @brief A group of allocations that a changed program makes in another way. */
struct WhatIfGroup {
  std::optional<std::uint32_t> stream;  ///< nothing: all streams except `to`
  std::uint32_t to = 0;
  std::optional<trace::StackTable::Id> stack;  ///< nothing: all stacks

  [[nodiscard]] bool has(const trace::AllocationLog& log, const trace::LoggedBlock& block) const {
    const bool of_stream = stream ? block.stream == *stream
                                  : block.stream != to && !log.streams[block.stream].for_all &&
                                        block.device == log.streams[to].device;
    return of_stream && (!stack || block.stack == *stack);
  }
};

/**
 * @brief The log of a changed program, which makes a group of its allocations in another way.
 *
 * Everything else stays the same: the order of the program's streams, its other requests, and the
 * frees.
 */
class StrategyLog {
 public:
  /** @param known  completions of `log`; both must outlive this object */
  StrategyLog(const trace::AllocationLog& log, const KnownCompletions& known,
              const WhatIfGroup& group, WhatIfStrategy strategy);

  [[nodiscard]] const trace::AllocationLog& log() const noexcept { return result_; }
  [[nodiscard]] const WhatIfCost& cost() const noexcept { return cost_; }
  /** @brief Returns the blocks of the given log that are made in another way. */
  [[nodiscard]] const std::vector<std::uint32_t>& changed() const noexcept { return changed_; }

 private:
  /** Work that may be the last use of a buffer. */
  struct LastUse {
    std::size_t position = 0;
    std::uint64_t marker = 0;  // the marker that covers it
  };
  /** A buffer that is kept, and the work that must complete before it is used again. */
  struct Buffer {
    std::uint32_t block = 0;  // the buffer's block in the result
    std::uint64_t bytes = 0;
    std::uint32_t last = trace::LogEvent::kNoBlock;  // while free: last block of the log in it
    std::map<std::uint32_t, LastUse> last_uses;      // while free: by stream
  };
  /** The buffers of one place in the program. A trace without completions has one for each
   * allocation. */
  struct Buffers {
    std::vector<Buffer> all;
    /// Free buffers by bytes, the oldest first, for each stream that may use them (`may_use`).
    std::map<std::uint32_t, std::set<std::pair<std::uint64_t, std::size_t>>> free;
  };
  /** Allocations of one stream that main may get, the oldest first. Some of them may be freed. */
  struct ToHandOver {
    std::vector<std::uint32_t> unmarked;                 // no marker covers them yet
    std::multimap<std::uint64_t, std::uint32_t> marked;  // by the first marker that covers them
  };

  [[nodiscard]] bool keeps_buffers() const;
  [[nodiscard]] bool is_of_group(std::uint32_t block) const;
  void take(trace::LoggedOrder step);
  void take(const trace::LogEvent& event);
  void allocate(trace::LogEvent event);
  void free(trace::LogEvent event);

  /** @return the marker */
  std::uint64_t mark(const trace::LogEvent& at, std::uint32_t stream);
  /** @brief Makes the stream of an allocation wait for work of another stream before it. */
  void wait(const trace::LogEvent& before, std::uint32_t other, LastUse work);
  void cover(const trace::LoggedOrder& mark);
  void hand_over(const trace::LoggedOrder& wait);

  [[nodiscard]] std::uint64_t place_of(const trace::LoggedBlock& block) const;
  /** @brief Returns the stream that may use a free buffer now, or kEveryStream or kNoStream. */
  [[nodiscard]] std::uint32_t may_use(const Buffer& buffer) const;
  void add_free(Buffers& buffers, std::size_t index) const;
  /** @return whether the buffer was free */
  bool remove_free(Buffers& buffers, std::size_t index) const;
  [[nodiscard]] std::optional<std::size_t> free_buffer(const Buffers& buffers,
                                                       const trace::LoggedBlock& wanted) const;
  void use_buffer(const trace::LogEvent& event);
  void grow(Buffer& buffer, const trace::LogEvent& event);
  void keep_buffer(const trace::LogEvent& event);
  void complete(std::uint32_t block);
  void add_event(trace::LogEvent event);
  void add_step(trace::LoggedOrder step);
  std::uint32_t add_block(std::uint64_t bytes, const trace::LoggedBlock& like);

  const trace::AllocationLog& log_;
  const KnownCompletions& known_;
  const WhatIfGroup group_;
  const WhatIfStrategy strategy_;
  trace::AllocationLog result_;
  WhatIfCost cost_;
  std::vector<std::uint32_t> changed_;
  std::size_t position_ = 0;  // position of the current step or event
  std::uint64_t markers_ = 0;
  std::int64_t waited_until_ = INT64_MIN;  // the end of the waits so far

  std::map<std::uint32_t, ToHandOver> to_hand_over_;  // by stream
  std::set<std::uint32_t> may_hand_over_;             // the blocks of these that are not freed
  std::set<std::uint32_t> handed_over_;
  std::map<std::uint64_t, Buffers> buffers_;                                  // by place
  std::map<std::uint32_t, std::pair<std::uint64_t, std::size_t>> in_buffer_;  // by block
  std::map<std::uint32_t, std::set<std::uint32_t>> uses_;                     // streams, by block
};

}  // namespace millrace
