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
    std::uint64_t steps = 0;  ///< of the tables so far; these are not delivered
  };
  StepAssembler(const Rank& rank, std::size_t sources)
      : rank_(rank), sources_(sources, Source{{SourceStep{rank.steps}}}) {}

  void add(const CapturedRows& rows);

  struct Step {
    StepBatch batch;
    std::vector<std::uint64_t> requests;  ///< for each source its CapturedRows::requests
  };
  /** @return all steps that have become complete, as one: the last of them; nothing if none has */
  [[nodiscard]] std::optional<Step> take();

  [[nodiscard]] std::uint64_t modelled_rows() const noexcept { return modelled_; }

 private:
  struct SourceStep {
    std::uint64_t step = 0, missing = 0, requests = 0;
    std::uint64_t rows = 0;
  };
  struct Source {
    std::deque<SourceStep>
        steps;          ///< ascending: the last one that was taken, and those that were not
    bool more = false;  ///< the last part of its newest step is still to come
  };
  struct Pending {
    StepBatch rows;
    bool repeats = false;  ///< a row may be in it twice, the newer after the older
  };

  [[nodiscard]] StepBatch rows_up_to(std::uint64_t step);

  const Rank rank_;
  std::vector<Source> sources_;
  std::map<std::uint64_t, Pending> pending_;  ///< by step
  std::uint64_t number_ = 0;                  ///< of the newest commit
  std::uint64_t modelled_ = 0;
};

}  // namespace millrace::ship
