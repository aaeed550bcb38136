#pragma once

#include "millrace/device/ordered_device.hpp"

/// @file
/// What every allocator refuses, in the same words. Each throws std::invalid_argument.

namespace millrace {

/** @brief `address` is not a live allocation. */
[[noreturn]] void refuse_address(const char* call, const void* address);

/** @brief `stream` was destroyed or detached. */
[[noreturn]] void refuse_stream(const char* call, const OrderedDevice& device, StreamRef stream);

/**
 * @brief Unless `stream`, which is resolved, is still known to the device.
 * @return its next marker
 */
inline Marker require_open(const char* call, const OrderedDevice& device, StreamRef stream) {
  const Marker next = device.ledger().next_if_open(stream.id());
  if (next == 0) [[unlikely]]
    refuse_stream(call, device, stream);
  return next;
}

/**
 * @brief The first markers that can cover a use of an allocation: those that its streams were to
 *        record next when it was given out.
 */
struct FirstMarkers {
  Point owner, user;  ///< the same where one stream is both

  [[nodiscard]] static FirstMarkers now(const Ledger& ledger, StreamId owner, StreamId user);
  /**
   * @brief Refuses a marker that was never recorded, and one of the owner or the first user that is
   *        older than the allocation. Of other streams it is the caller's word.
   */
  void require_covered(Point marker, const void* address) const;
};

}  // namespace millrace
