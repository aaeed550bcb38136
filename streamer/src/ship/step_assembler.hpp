#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "millrace/streamer/captured_rows.hpp"
#include "millrace/streamer/shipper.hpp"
#include "ship/backlog.hpp"

namespace millrace::ship {

/**
 * @brief Assembles the rows of all sources of a rank into steps. A step is complete when every
 * source has delivered it, or a later one. Not thread-safe.
 */
class StepAssembler {
 public:
  struct Rank {
    std::uint64_t epoch = 0;
    std::uint32_t rank = 0, ranks = 1;
    /** Step of the tables at the beginning; it and earlier ones are not delivered. */
    std::uint64_t steps = 0;
  };
  StepAssembler(const Rank& rank, std::size_t sources)
      : rank_(rank), sources_(sources, Source{{SourceStep{rank.steps}}}) {}

  void add(const CapturedRows& rows);

  struct Step {
    StepBatch batch;
    std::vector<std::uint64_t> requests;  ///< for each source its CapturedRows::requests
  };
  /**
   * @return all steps that have become complete, merged into one with the number of the last;
   * nothing if none has
   */
  [[nodiscard]] std::optional<Step> take();

  [[nodiscard]] std::uint64_t modeled_rows() const noexcept { return modeled_; }

 private:
  struct SourceStep {
    std::uint64_t step = 0, missing = 0, requests = 0;
    std::uint64_t rows = 0;
  };
  struct Source {
    std::deque<SourceStep>
        steps;          ///< ascending: the last step that was taken, and those not taken yet
    bool more = false;  ///< the last part of its newest step has not arrived yet
  };
  struct Pending {
    StepBatch rows;
    bool repeats = false;  ///< may contain a row twice, the newer record after the older one
  };

  [[nodiscard]] StepBatch rows_up_to(std::uint64_t step);

  const Rank rank_;
  std::vector<Source> sources_;
  std::map<std::uint64_t, Pending> pending_;  ///< by step
  std::uint64_t number_ = 0;                  ///< number of the newest commit
  std::uint64_t modeled_ = 0;
};

}  // namespace millrace::ship
