#pragma once

#include <memory>
#include <span>

#include "device/virtual/actors.hpp"
#include "device/virtual/work.hpp"

namespace millrace::simulation {

/** @brief Decides when work runs and which actor runs next. The two schedules implement it. */
class Schedule : public Picker {
 public:
  using Items = std::span<const std::shared_ptr<WorkItem>>;

  /** @brief Reports that `stream` has a new last item. */
  virtual void submitted(StreamState& stream) = 0;
  /** @brief Reports that `gate` was opened. */
  virtual void opened(WorkItem& gate) = 0;
  /** @brief Reports that `meeting` was canceled before it began. */
  virtual void canceled(MeetingState& meeting) = 0;
  /** @brief Reports that a callback ended, which the schedule had given to the host. */
  virtual void called_back(WorkItem& item, Nanoseconds end) = 0;
  /** @brief Answers a query whether all `items` have ended. */
  [[nodiscard]] virtual bool answer(Items items) = 0;
  [[nodiscard]] std::string explain(const Actor& actor) const override;
};

class Machine;
[[nodiscard]] std::unique_ptr<Schedule> make_timed_schedule(Machine& machine);
[[nodiscard]] std::unique_ptr<Schedule> make_adversarial_schedule(Machine& machine,
                                                                  std::uint64_t seed);

}  // namespace millrace::simulation
