#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "capture/slot.hpp"
#include "millrace/device/stream.hpp"
#include "millrace/streamer/row_capture.hpp"

namespace millrace::capture {

/**
 * @brief The slots of a capture: their memory, and who owns each of them.
 *
 * Slots never move, and none is destroyed before the pool. The training thread takes a slot with
 * `take`, fills it and hands it to the copier; the copier or the receiver gives it back with `set`
 * or `set_returning`.
 *
 * Thread safety: `make`, `take` and `count_free` are the training thread's. A mutex protects
 * `Slot::stage` and `Slot::torn`; it is not held across a device call. Each change of a stage is an
 * edge of the host's order, which is reported to the executor.
 */
class SlotPool {
 public:
  /** @brief What the slots of a pool are like. */
  struct Layout {
    CaptureMode mode = CaptureMode::ring;
    std::size_t slots = 0;  ///< at most
    std::size_t bytes = 0;  ///< of each slot
  };

  /** @brief Makes the first slots, up to two. @throws out_of_memory, DeviceError */
  SlotPool(const CaptureEnvironment& environment, const Layout& layout);

  /** @brief A slot that was taken. */
  struct Taken {
    std::size_t number = 0;
    bool returning = false;  ///< its ids must become dirty first; its stage is unchanged until then
  };
  /** @brief Takes a slot that is free or, if there is none, returning. A free one is then
   * gathering.
   */
  [[nodiscard]] std::optional<Taken> take();
  /**
   * @brief Makes memory for another slot, which is then gathering; main allocates it.
   * @return nothing if there may be no more, or there was no memory for it now or earlier
   * @param usable  called after the allocation on main, to order the first use of the slot
   */
  template <typename Usable>
  [[nodiscard]] std::optional<std::size_t> make(Usable&& usable);
  [[nodiscard]] std::size_t count_free() const;

  /** @brief Its slot for a delivery's number. */
  [[nodiscard]] Slot& operator[](std::size_t number) { return slots_[number]; }
  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }

  void set(Slot& slot, Slot::Stage stage);
  /** @brief The rows of a slot could not be delivered. @param rows  upper bound */
  void set_returning(Slot& slot, std::uint64_t rows);
  [[nodiscard]] bool returning(const Slot& slot) const;
  [[nodiscard]] bool any_returning() const;

  /** @brief A gather into the slot begins. */
  void begin_gather(Slot& slot, std::uint64_t sequence, std::uint64_t rows);
  /** @brief Rows may change while gathers that are in progress read them. */
  void tear_copying();
  [[nodiscard]] bool torn(const Slot& slot) const;

 private:
  [[nodiscard]] Slot made(Slot::Stage stage) const;
  [[nodiscard]] std::optional<std::size_t> first_without_memory() const;
  void add(std::size_t number, Slot slot);

  const CaptureEnvironment environment_;
  const Layout layout_;
  bool no_more_ = false;  ///< there was no memory for another slot
  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
};

template <typename Usable>
std::optional<std::size_t> SlotPool::make(Usable&& usable) {
  const std::optional<std::size_t> number = first_without_memory();
  if (!number) return {};
  try {
    Slot slot = made(Slot::Stage::gathering);
    usable();
    add(*number, std::move(slot));
  } catch (...) {
    no_more_ = true;
    throw;
  }
  return number;
}

}  // namespace millrace::capture
