#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "capture/layout.hpp"
#include "capture/source_rows.hpp"
#include "millrace/device/ordered_device.hpp"
#include "millrace/memory/buffer.hpp"

namespace millrace::capture {

/** @brief What one gather fills, and what it comes to the host in. */
struct Slot {
  enum class Stage {
    none,  ///< has no memory yet
    free,
    gathering,  ///< the training thread's, until it has been handed to the copier
    copying,    ///< the copier's, that waits for the gather and brings it
    ready,      ///< on the host
    shipping,   ///< the receiver's
    returning,  ///< could not be told: its ids are to be marked before it is used again
  };

  Buffer device;                    ///< none where it is not the slot's own, or the host's
  Buffer pinned;                    ///< none of `sync_pageable`
  std::vector<std::byte> pageable;  ///< of `sync_pageable`
  Event gathered;
  Event drained;  ///< behind the copy, where a kernel makes it
  Stage stage = Stage::none;
  bool torn = false;     ///< rows may have changed while they were gathered
  bool garbled = false;  ///< it came, and is not what a gather writes
  bool unsure = false;   ///< a copy out of it may still be under way
  std::uint64_t sequence = 0;
  std::uint64_t listed = 0;            ///< rows, at most, that it was to gather
  std::uint64_t returned = 0;          ///< rows, at most, of one that is returning
  CaptureHeader expected;              ///< what it will hold where nothing is computed
  std::uint64_t expected_numbers = 0;  ///< bytes, likewise

  /** @brief Where its rows are, once they are gathered, or copied by a kernel. */
  [[nodiscard]] SlotMemory memory() const {
    const Buffer& buffer = device ? device : pinned;
    return {static_cast<std::byte*>(buffer.data()), buffer.size(), !device};
  }
  [[nodiscard]] std::byte* host() {
    return pinned ? static_cast<std::byte*>(pinned.data()) : pageable.data();
  }
};

/** @brief What gathers write to before a kernel copies it to a slot. */
struct Staging {
  Buffer device;
  Event drained;        ///< behind the last copy out of it
  bool unsure = false;  ///< of a copy out of it nobody knows the end

  [[nodiscard]] SlotMemory memory() const {
    return {static_cast<std::byte*>(device.data()), device.size(), false};
  }
};

/** @brief What the training thread has the copier tell: a step, with rows or without. */
struct Telling {
  std::uint64_t step = 0;
  std::optional<std::size_t> slot{};
  bool more = false;
  std::uint64_t marks = 0;     ///< calls of `mark` that are behind it
  std::uint64_t marked = 0;    ///< rows that were marked so far, at most, in all steps together
  std::uint64_t returned = 0;  ///< rows that were returned so far, and have been marked
};

}  // namespace millrace::capture
