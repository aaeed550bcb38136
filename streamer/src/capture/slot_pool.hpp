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
 * @brief The slots of a capture: their memory and their owners.
 *
 * Slots never move, and none is destroyed before the pool. The training thread takes a slot with
 * `take`, fills it and passes it to the copier, which frees it with `set` or `set_returning`.
 *
 * Thread safety: only the training thread calls `make`, `take` and `count_free`. A mutex protects
 * `Slot::stage` and `Slot::torn`; it is not locked across a device call. Each change of a stage is
 * reported to the executor as an edge of the host's order.
 */
class SlotPool {
 public:
  /** @brief Number and size of the slots. */
  struct Layout {
    CaptureMode mode = CaptureMode::ring;
    std::size_t slots = 0;  ///< maximum number
    std::size_t bytes = 0;  ///< bytes of each slot
  };

  /** @brief Makes the first slots, up to two. @throws out_of_memory, DeviceError */
  SlotPool(const CaptureEnvironment& environment, const Layout& layout);

  /** @brief A slot that was taken. */
  struct Taken {
    std::size_t number = 0;
    /** Its rows must become dirty first; its stage is unchanged until then. */
    bool returning = false;
  };
  /**
   * @brief Takes a free slot or, without one, a returning slot. The stage of a free one becomes
   * `gathering`.
   */
  [[nodiscard]] std::optional<Taken> take();
  /**
   * @brief Allocates another slot on main. Its stage is `gathering`.
   * @return nothing if all slots have memory, or an earlier call failed
   * @throws what the allocation or `usable` throws
   * @param usable  called after the allocation, to order the first use of the slot after it
   */
  template <typename Usable>
  [[nodiscard]] std::optional<std::size_t> make(Usable&& usable);
  [[nodiscard]] std::size_t count_free() const;

  /** @brief Returns the slot with this number. */
  [[nodiscard]] Slot& operator[](std::size_t number) { return slots_[number]; }
  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }

  void set(Slot& slot, Slot::Stage stage);
  /** @brief Call if the rows of a slot could not be delivered. @param rows  upper bound */
  void set_returning(Slot& slot, std::uint64_t rows);
  [[nodiscard]] bool returning(const Slot& slot) const;
  [[nodiscard]] bool any_returning() const;

  /** @brief Call when a gather into the slot begins. */
  void begin_gather(Slot& slot, std::uint64_t sequence, std::uint64_t rows);
  /** @brief Call when rows may change while gathers in progress read them. */
  void tear_copying();
  [[nodiscard]] bool torn(const Slot& slot) const;

 private:
  [[nodiscard]] Slot made(Slot::Stage stage) const;
  [[nodiscard]] std::optional<std::size_t> first_without_memory() const;
  void add(std::size_t number, Slot slot);

  const CaptureEnvironment environment_;
  const Layout layout_;
  bool no_more_ = false;  ///< an earlier call of `make` failed
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
