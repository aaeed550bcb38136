#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "millrace/ordering/ledger.hpp"

namespace millrace::ordering {

/** A marker that can be waited on: an event of its own, or the legacy stream's that implies it. */
struct Published {
  Marker marker = 0;
  MarkerToken token = 0;
  bool own = true;
  std::shared_ptr<const Frontier> snapshot;
};

enum class Phase : unsigned char { vacant, open, closed };

/** One stream at a time. Vacant only when all work of every tenant so far is complete. */
struct Slot {
  // Written under the ledger's mutex, read without.
  std::atomic<std::uint32_t> generation{1};  // the tenant's; the next tenant's while vacant
  std::atomic<Phase> phase{Phase::vacant};
  std::atomic<Marker> next{1};
  std::atomic<Marker> completed{0};

  // Under the ledger's mutex.
  StreamTraits traits;
  Frontier frontier;
  std::vector<Published> markers;    // by number; neither complete nor withdrawn
  std::vector<Published> withdrawn;  // by time of withdrawal, the last few

  [[nodiscard]] StreamId id(std::uint32_t slot) const noexcept { return {slot, generation.load()}; }
};

/** Slots never move, and are found without a lock: chunk c holds 64 << c of them. */
class SlotTable {
 public:
  SlotTable() = default;
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;
  ~SlotTable() {
    for (const auto& chunk : chunks_) delete[] chunk.load();
  }

  /** nullptr if there never was such a slot. */
  [[nodiscard]] Slot* find(std::uint32_t slot) const noexcept {
    if (slot >= size_.load(std::memory_order_acquire)) return nullptr;
    const auto [chunk, offset] = place(slot);
    return &chunks_[chunk].load(std::memory_order_relaxed)[offset];
  }

  [[nodiscard]] Slot& operator[](std::uint32_t slot) const noexcept { return *find(slot); }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_.load(); }

  std::uint32_t add() {
    const std::uint32_t slot = size_.load();
    const auto [chunk, offset] = place(slot);
    if (offset == 0) chunks_[chunk].store(new Slot[std::size_t{kFirst} << chunk]);
    size_.store(slot + 1, std::memory_order_release);
    return slot;
  }

 private:
  static constexpr std::uint32_t kFirst = 64;

  struct Place {
    std::size_t chunk, offset;
  };
  static Place place(std::uint32_t slot) noexcept {
    const std::uint64_t i = std::uint64_t{slot} + kFirst;
    const auto chunk = static_cast<std::size_t>(std::bit_width(i) - std::bit_width(kFirst));
    return {chunk, static_cast<std::size_t>(i - (std::uint64_t{kFirst} << chunk))};
  }

  std::array<std::atomic<Slot*>, 27> chunks_{};
  std::atomic<std::uint32_t> size_{0};
};

}  // namespace millrace::ordering
