#pragma once

#include <memory>
#include <span>

#include "device/virtual/actors.hpp"
#include "device/virtual/work.hpp"

namespace millrace::simulation {

/** @brief When work runs and which actor is next: the two schedules implement it. */
class Schedule : public Picker {
 public:
  using Items = std::span<const std::shared_ptr<WorkItem>>;

  /** @brief `stream` has a new last item. */
  virtual void submitted(StreamState& stream) = 0;
  /** @brief `gate` has been opened. */
  virtual void opened(WorkItem& gate) = 0;
  /** @brief `meeting` has been given up before it began. */
  virtual void cancelled(MeetingState& meeting) = 0;
  /** @brief A callback, which the schedule had handed to the host, has ended. */
  virtual void called_back(WorkItem& item, Nanoseconds end) = 0;
  /** @brief What a query for the end of all `items` says now. */
  [[nodiscard]] virtual bool answer(Items items) = 0;
  [[nodiscard]] std::string explain(const Actor& actor) const override;
};

class Machine;
[[nodiscard]] std::unique_ptr<Schedule> make_timed_schedule(Machine& machine);
[[nodiscard]] std::unique_ptr<Schedule> make_adversarial_schedule(Machine& machine,
                                                                  std::uint64_t seed);

}  // namespace millrace::simulation
