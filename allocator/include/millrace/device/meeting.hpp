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
 * @brief A collective operation: streams of several virtual devices execute it together.
 *
 * `VirtualMachine::make_meeting` makes it. Each party launches an Operation that names the meeting
 * and the party's number. The Operation declares the views and the cost of that party and has no
 * kernel of its own.
 *
 * The meeting begins when the Operation of every party is at the head of its stream and all waits
 * before it are done. A device takes part in one meeting at a time. All parts then run on
 * `Engine::link` for the time that the longest of them takes alone. Then the effect is applied, and
 * all parts end together. Work enqueued on any party's stream before its part therefore happens
 * before work enqueued on any party's stream after its part.
 */
class Meeting {
 public:
  /**
   * @brief Moves the data of the collective; gets the views of each party.
   *
   * Not called if a device has no data. If it throws, the devices are lost.
   */
  using Effect = std::function<void(std::span<const KernelContext> parties)>;

  /** @brief Used by `VirtualMachine::make_meeting`. */
  explicit Meeting(std::shared_ptr<simulation::MeetingState> state);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  [[nodiscard]] unsigned parties() const noexcept;
  [[nodiscard]] std::uint64_t serial() const noexcept;  ///< unique for each meeting
  /** @brief Returns whether the meeting has begun or has ended. */
  [[nodiscard]] bool met() const noexcept;
  /** @brief Returns whether it was canceled before it began, so that its data was not moved. */
  [[nodiscard]] bool canceled() const noexcept;

  /**
   * @brief Cancels the meeting; any actor may call it.
   *
   * Each part, including those launched later, then ends by itself when its stream reaches it; the
   * effect is not applied. Does nothing if the meeting has begun.
   */
  void cancel();

 private:
  friend std::shared_ptr<simulation::WorkItem> simulation::meeting_item(
      simulation::DeviceModel& device, Operation operation);
  const std::shared_ptr<simulation::MeetingState> state_;
};

}  // namespace millrace
