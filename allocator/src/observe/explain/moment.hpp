#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "millrace/observe/explain.hpp"
#include "observe/explain/block_times.hpp"
#include "observe/explain/memory_map.hpp"
#include "observe/explain/moments.hpp"
#include "observe/explain/partition.hpp"
#include "observe/explain/sites.hpp"

namespace millrace {

/** @brief Data that the explanations of all moments of a log share. */
struct ExplainEnvironment {
  const trace::AllocationLog& log;
  const BlockTimes& times;
  ExplainedStreams& streams;
  Sites& sites;
  std::vector<std::uint64_t>& ends;  ///< by block: its end in its segment
};

/** @brief The memory of a device at one moment. */
class MomentView {
 public:
  /** @param event  number among the device's events; std::nullopt: the start */
  MomentView(const ExplainEnvironment& environment, const DeviceLog& device,
             std::optional<std::size_t> event);
  MomentView(const MomentView&) = delete;
  MomentView& operator=(const MomentView&) = delete;

  /** @brief Returns the use of all memory as `asker`, a stream and pool that requests memory, sees
   * it.
   */
  [[nodiscard]] MemoryMoment explain(MemoryAsker asker, const Moments& of_log);

  [[nodiscard]] const std::vector<Stretch>& stretches() const noexcept { return stretches_; }
  [[nodiscard]] std::uint64_t live() const noexcept { return map_.live(); }
  [[nodiscard]] std::uint64_t reserved() const noexcept { return map_.reserved(); }
  /** @brief Returns the last free within a range of addresses. */
  [[nodiscard]] std::optional<std::size_t> freed(std::uint64_t begin, std::uint64_t end) const;

 private:
  [[nodiscard]] MemoryAsker busiest() const;
  void add_unplaced(class MomentDivider& divider) const;

  const ExplainEnvironment& environment_;
  const DeviceLog& device_;
  std::optional<std::size_t> event_;
  MemoryMap map_;
  std::vector<Stretch> stretches_;
  std::vector<FreePiece> pieces_;
};

/**
 * @brief Explains why the request of an out_of_memory event failed.
 * @param event  number among the device's events
 */
[[nodiscard]] FailedRequest explain_failure(const ExplainEnvironment& environment,
                                            const DeviceLog& device, std::size_t event,
                                            const Moments& of_log);

}  // namespace millrace
