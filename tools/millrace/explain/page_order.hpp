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
 * @brief The order of the streams of a trace of Millrace's, at a moment that moves forward: why a
 *        stream could use memory that another one had.
 *
 * It knows what the trace says: marks, waits and synchronizations. An order that only the device
 * knows, such as that of the legacy default stream, is not known here.
 */
class PageOrder {
 public:
  /** A wait: indices into the log's order. */
  struct Wait {
    std::size_t mark = 0, wait = 0;
  };

  explicit PageOrder(const trace::AllocationLog& log);

  /** @brief Takes the steps before an event, in ascending order of events. */
  void advance(std::size_t event);
  void freed(const trace::LogEvent& event);
  void completed(std::uint32_t block) { complete_[block] = true; }

  /** Why a stream may use memory. */
  struct Reuse {
    PageReuse why = PageReuse::unknown;
    std::uint32_t wait = kUnknown;  ///< if ordered: the stream's last wait that did it, in `waits`
  };
  /** @brief Why `stream` may use the memory of a freed block now. */
  [[nodiscard]] Reuse reuse(std::uint32_t block, std::uint32_t stream) const;

  /** @brief Whether the trace has more order than is followed: later reuse may be "unknown". */
  [[nodiscard]] bool is_cut() const noexcept { return is_cut_; }

  /** @brief The waits so far. */
  [[nodiscard]] const std::vector<Wait>& waits() const noexcept { return waits_; }

 private:
  /// All work before a position is ordered before the owner's next work, by a wait of the owner.
  struct After {
    std::uint64_t position = 0;
    std::uint32_t wait = kUnknown;
  };
  using Frontier = std::map<std::uint32_t, After>;  ///< by stream
  struct Mark {
    std::uint64_t position = 0;
    std::size_t step = 0;
    std::shared_ptr<const Frontier> frontier;  // of its stream; nullptr: empty, or too many
  };

  void take(const trace::LoggedOrder& step, std::size_t index);
  void wait(const trace::LoggedOrder& step, std::size_t index);
  /** To be changed: no mark has it. */
  Frontier& own_frontier(std::uint32_t stream);

  const trace::AllocationLog& log_;
  std::size_t next_ = 0;
  std::uint64_t position_ = 0;                        // steps and events together
  std::size_t entries_ = 0;                           // of all frontiers that were copied
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
