#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "millrace/observe/trace/allocation_log.hpp"
#include "page/page_data.hpp"

namespace millrace::cli {

/**
 * @brief Follows the order of the streams through a trace in Millrace's format. It tells why a
 *        stream could use memory that another stream had.
 *
 * It uses the recorded marks, waits and synchronizations. It does not know orders that only the
 * device knows, such as the order of the legacy default stream.
 */
class PageOrder {
 public:
  /** A wait, as indices into the log's order. */
  struct Wait {
    std::size_t mark = 0, wait = 0;
  };

  explicit PageOrder(const trace::AllocationLog& log);

  /** @brief Applies the steps that precede an event. Call it in ascending order of events. */
  void advance(std::size_t event);
  void freed(const trace::LogEvent& event);
  void completed(std::uint32_t block) { complete_[block] = true; }

  /** The reason why a stream may use memory. */
  struct Reuse {
    PageReuse why = PageReuse::unknown;
    std::uint32_t wait = kUnknown;  ///< if ordered, the last wait for it; index into `waits`
  };
  /** @brief Why `stream` may use the memory of a freed block now. */
  [[nodiscard]] Reuse reuse(std::uint32_t block, std::uint32_t stream) const;

  /** @brief Whether the trace exceeds the limits here. Later reuse may then be "unknown". */
  [[nodiscard]] bool is_cut() const noexcept { return is_cut_; }

  /** @brief All waits up to now. */
  [[nodiscard]] const std::vector<Wait>& waits() const noexcept { return waits_; }

 private:
  /// A wait of the owner ordered all work before `position` before the owner's next work.
  struct After {
    std::uint64_t position = 0;
    std::uint32_t wait = kUnknown;
  };
  using Frontier = std::map<std::uint32_t, After>;  ///< by stream
  struct Mark {
    std::uint64_t position = 0;
    std::size_t step = 0;
    std::shared_ptr<const Frontier> frontier;  // of its stream; nullptr: empty, or over the limit
  };

  void take(const trace::LoggedOrder& step, std::size_t index);
  void wait(const trace::LoggedOrder& step, std::size_t index);
  /** The stream's frontier for writing. No mark shares it. */
  Frontier& own_frontier(std::uint32_t stream);

  const trace::AllocationLog& log_;
  std::size_t next_ = 0;
  std::uint64_t position_ = 0;                        // number of steps and events
  std::size_t entries_ = 0;                           // size of all copied frontiers
  std::vector<std::map<std::uint64_t, Mark>> marks_;  // by stream and marker
  std::vector<std::shared_ptr<Frontier>> frontier_;   // by stream
  std::vector<std::uint64_t> done_;      // by stream: all its work before this position is complete
  std::vector<bool> complete_;           // by block: all its work is known to be complete
  std::vector<std::uint64_t> freed_at_;  // by block
  std::map<std::uint32_t, std::set<std::uint32_t>> uses_;  // by block: other streams that used it
  std::vector<Wait> waits_;
  bool is_cut_ = false;
};

}  // namespace millrace::cli
