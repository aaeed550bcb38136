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
 * `stage` says who owns the slot. SlotPool's mutex protects `stage` and `torn`; only the owner uses
 * the other members.
 */
struct Slot {
  enum class Stage {
    none,       ///< has no memory yet
    free,       ///< has no owner
    gathering,  ///< owned by the training thread, until it is passed to the copier
    copying,    ///< owned by the copier, which waits for the gather and fetches the rows
    ready,      ///< owned by the copier: the rows are on the host
    shipping,   ///< owned by the receiver
    returning,  ///< could not be delivered: its rows become dirty before it is used again
  };

  Buffer device;                    ///< empty if gathers write to shared buffers or to host memory
  Buffer pinned;                    ///< empty with `sync_pageable`
  std::vector<std::byte> pageable;  ///< `sync_pageable` only
  Event gathered;                   ///< recorded after the gather
  Event drained;                    ///< recorded after the copy, if a kernel copies
  Stage stage = Stage::none;
  bool torn = false;                   ///< rows may have changed while they were gathered
  bool garbled = false;                ///< the contents are not those of a gather
  bool unsure = false;                 ///< a copy out of it may still be in progress
  std::uint64_t sequence = 0;          ///< DirtyProtocol's number of its gather
  std::uint64_t listed = 0;            ///< upper bound on the rows of the gather's list
  std::uint64_t returned = 0;          ///< upper bound on its rows, if it is returning
  CaptureHeader expected;              ///< predicted header if nothing is computed
  std::uint64_t expected_numbers = 0;  ///< predicted bytes of values if nothing is computed

  /** @brief Returns the memory that has the rows after the gather, or after a kernel's copy. */
  [[nodiscard]] SlotMemory memory() const {
    const Buffer& buffer = device ? device : pinned;
    return {static_cast<std::byte*>(buffer.data()), buffer.size(), !device};
  }
  [[nodiscard]] std::byte* host() {
    return pinned ? static_cast<std::byte*>(pinned.data()) : pageable.data();
  }
};

}  // namespace millrace::capture
