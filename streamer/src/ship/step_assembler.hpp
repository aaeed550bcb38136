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
 * @brief Puts together what the sources of a rank tell, into steps: one is whole when every source
 *        has told it, or a later one. Not thread-safe.
 */
class StepAssembler {
 public:
  struct Rank {
    std::uint64_t epoch = 0;
    std::uint32_t rank = 0, ranks = 1;
    std::uint64_t steps = 0;  ///< of the tables so far: there is nothing to tell of those
  };
  StepAssembler(const Rank& rank, std::size_t sources)
      : rank_(rank), sources_(sources, Source{{Told{rank.steps}}}) {}

  void add(const CapturedRows& rows);

  struct Step {
    StepBatch batch;
    std::vector<std::uint64_t> marks;  ///< of each source, as CapturedRows has it
  };
  /** @brief What has become whole, as one step: the last of them; nothing if nothing has. */
  [[nodiscard]] std::optional<Step> take();

  [[nodiscard]] std::uint64_t modelled_rows() const noexcept { return modelled_; }

 private:
  struct Told {
    std::uint64_t step = 0, missing = 0, marks = 0;
    std::uint64_t rows = 0;
  };
  struct Source {
    std::deque<Told> told;  ///< ascending: the last one that was taken, and those that were not
    bool more = false;      ///< of its last step it has told a part
  };
  struct Pending {
    StepBatch rows;
    bool repeats = false;  ///< a row may be in it twice, the newer behind the older
  };

  [[nodiscard]] StepBatch rows_up_to(std::uint64_t step);

  const Rank rank_;
  std::vector<Source> sources_;
  std::map<std::uint64_t, Pending> pending_;  ///< by step
  std::uint64_t number_ = 0;                  ///< of the newest mark
  std::uint64_t modelled_ = 0;
};

}  // namespace millrace::ship
