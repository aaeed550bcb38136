#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "millrace/device/operation.hpp"

namespace millrace {

namespace simulation {
class DeviceModel;
struct MeetingState;
struct WorkItem;
[[nodiscard]] std::shared_ptr<WorkItem> meeting_item(DeviceModel& device, Operation operation);
}  // namespace simulation

/**
 * @brief One operation that streams of several virtual devices do together: a collective.
 *
 * Made by `VirtualMachine::make_meeting`. Each party launches an Operation that names the meeting
 * and its number among the parties; it declares that party's views and cost, and has no kernel of
 * its own. No part begins before every part is at the head of its stream and what it waits for is
 * done; a device takes part in one meeting at a time. Then all run, on `Engine::link`, for as long
 * as the longest of them takes alone, the effect happens, and all end together. So what any party
 * was given before is before what any party is given after.
 */
class Meeting {
 public:
  /**
   * @brief What happens to the data when all meet: it gets each party's views.
   * Not called where a device has no data. If it throws, the devices are lost.
   */
  using Effect = std::function<void(std::span<const KernelContext> parties)>;

  explicit Meeting(std::shared_ptr<simulation::MeetingState> state);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  [[nodiscard]] unsigned parties() const noexcept;
  [[nodiscard]] std::uint64_t serial() const noexcept;  ///< another one for each meeting
  /** @brief All have come and begun, or more. */
  [[nodiscard]] bool met() const noexcept;
  [[nodiscard]] bool cancelled() const noexcept;

  /**
   * @brief Gives it up, from any actor: parts end when their turn comes, each for itself and
   *        without an effect, as those do that come later. Nothing happens if it has been met.
   */
  void cancel();

 private:
  friend std::shared_ptr<simulation::WorkItem> simulation::meeting_item(
      simulation::DeviceModel& device, Operation operation);
  const std::shared_ptr<simulation::MeetingState> state_;
};

}  // namespace millrace
