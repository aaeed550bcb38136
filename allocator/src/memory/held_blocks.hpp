#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "memory/block.hpp"

namespace millrace {

/**
 * @brief At most one block for each slot of a stream.
 *
 * One stream after another uses a slot, so the block of a slot may belong to an earlier stream.
 */
class HeldBlocks {
 public:
  /** @brief Returns the block of the lane's slot, or nullptr. */
  [[nodiscard]] Block* find(StreamId lane) const noexcept {
    return lane.slot < slots_.size() ? slots_[lane.slot].block : nullptr;
  }
  /** @brief Takes out the block of the lane's slot; nullptr if there is none. */
  [[nodiscard]] Block* take(StreamId lane) noexcept {
    if (lane.slot >= slots_.size()) return nullptr;
    return std::exchange(slots_[lane.slot].block, nullptr);
  }
  /** @brief Returns whether `put` may be called for the lane. */
  [[nodiscard]] bool has_room(StreamId lane) const noexcept { return lane.slot < slots_.size(); }
  /** @brief Makes room for the lane's slot, so that `put` allocates no memory. */
  void make_room(StreamId lane) {
    if (lane.slot < slots_.size()) [[likely]]
      return;
    used_.reserve(lane.slot + std::size_t{1});
    slots_.resize(lane.slot + std::size_t{1});
  }
  /** @brief Adds a block. The lane's slot has room and no block. */
  void put(StreamId lane, Block* block) noexcept {
    Slot& slot = slots_[lane.slot];
    if (!std::exchange(slot.used, true)) used_.push_back(lane.slot);
    slot.block = block;
  }
  /** @brief Takes out any block; nullptr if there is none. */
  [[nodiscard]] Block* take_any() noexcept {
    while (!used_.empty()) {
      Slot& slot = slots_[used_.back()];
      used_.pop_back();
      slot.used = false;
      if (Block* const block = std::exchange(slot.block, nullptr)) return block;
    }
    return nullptr;
  }

 private:
  struct Slot {
    Block* block = nullptr;
    bool used = false;  // `used_` has its number
  };

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> used_;  // slots that may have a block
};

}  // namespace millrace
