#pragma once

#include "millrace/device/ordered_device.hpp"

/// @file
/// Checks of arguments that all allocators share. A failed check throws std::invalid_argument.

namespace millrace {

/** @brief Throws the error for an `address` that is not a live allocation. */
[[noreturn]] void refuse_address(const char* call, const void* address);

/** @brief Throws the error for a `stream` that was destroyed or detached. */
[[noreturn]] void refuse_stream(const char* call, const OrderedDevice& device, StreamRef stream);

/**
 * @brief Returns the next marker of a resolved stream.
 * @throws std::invalid_argument in the name of `call` if the stream was destroyed or detached
 */
inline Marker require_open(const char* call, const OrderedDevice& device, StreamRef stream) {
  const Marker next = device.ledger().next_if_open(stream.id());
  if (next == 0) [[unlikely]]
    refuse_stream(call, device, stream);
  return next;
}

/**
 * @brief The earliest markers that can cover a use of an allocation: the next markers of its owner
 *        and of its first user at the time of the allocation.
 */
struct FirstMarkers {
  Point owner, user;  ///< equal if one stream is both

  /** @brief Returns the present next markers of the two streams. */
  [[nodiscard]] static FirstMarkers now(const Ledger& ledger, StreamId owner, StreamId user);
  /**
   * @brief Checks the marker that `deallocate(address, marker)` got. Markers of other streams than
   *        the two are not checked; the caller must make sure that they come after every use.
   * @throws std::invalid_argument if the marker was never recorded, or is a marker of the owner or
   *         the first user that is older than the allocation
   */
  void require_covered(Point marker, const void* address) const;
};

}  // namespace millrace
