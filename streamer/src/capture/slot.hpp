#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "capture/layout.hpp"
#include "capture/source_rows.hpp"
#include "millrace/device/ordered_device.hpp"
#include "millrace/memory/buffer.hpp"

namespace millrace::capture {

/**
 * @brief The buffer that one gather fills, and the memory in which its rows reach the host.
 *
 * `stage` says whose it is. Only the owner touches the other members, except `stage` and `torn`,
 * which SlotPool's mutex protects.
 */
struct Slot {
  enum class Stage {
    none,       ///< has no memory yet
    free,       ///< has no owner
    gathering,  ///< the training thread's, until it is handed to the copier
    copying,    ///< the copier's: it waits for the gather and fetches the rows
    ready,      ///< the copier's: the rows are on the host
    shipping,   ///< the receiver's
    returning,  ///< could not be delivered: its ids become dirty before it is used again
  };

  Buffer device;                    ///< empty if all slots share stagings, or gathers write to host
  Buffer pinned;                    ///< empty with `sync_pageable`
  std::vector<std::byte> pageable;  ///< of `sync_pageable`
  Event gathered;                   ///< after the gather
  Event drained;                    ///< after the copy, if a kernel makes it
  Stage stage = Stage::none;
  bool torn = false;                   ///< rows may have changed while they were gathered
  bool garbled = false;                ///< what came is not what a gather writes
  bool unsure = false;                 ///< a copy out of it may still be in progress
  std::uint64_t sequence = 0;          ///< DirtyProtocol's number of its gather
  std::uint64_t listed = 0;            ///< upper bound on the rows that it was to gather
  std::uint64_t returned = 0;          ///< upper bound on its rows, if it is returning
  CaptureHeader expected;              ///< its contents where nothing is computed
  std::uint64_t expected_numbers = 0;  ///< bytes of values where nothing is computed

  /** @brief Where its rows are after the gather, or after a kernel has copied them. */
  [[nodiscard]] SlotMemory memory() const {
    const Buffer& buffer = device ? device : pinned;
    return {static_cast<std::byte*>(buffer.data()), buffer.size(), !device};
  }
  [[nodiscard]] std::byte* host() {
    return pinned ? static_cast<std::byte*>(pinned.data()) : pageable.data();
  }
};

}  // namespace millrace::capture
