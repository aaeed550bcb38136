#pragma once

#include "millrace/device/checking.hpp"
#include "millrace/memory/forwarding_allocator.hpp"

namespace millrace {

/** @brief Whose memory a CheckedAllocator gives out. */
enum class CheckedMemory {
  device,
  pinned,  ///< the host touches it first: `CheckingObserver::host_writes` and `host_reads` tell
};

/**
 * @brief Hands everything on to another allocator, and tells a race checker what it gives out.
 *
 * With the checker attached to the device below, every access is then checked against the one rule:
 * memory that was handed on too early, to work or to the host, is found and named. Not for the
 * driver's pool, of which the device itself tells its observers.
 */
class CheckedAllocator final : public ForwardingAllocator {
 public:
  /**
   * @param checking  outlives this, and is attached to `device`
   * @param device    the one that observers see: below any that stands for it
   */
  CheckedAllocator(Allocator& inner, CheckingObserver& checking, Device& device,
                   CheckedMemory memory = CheckedMemory::device)
      : ForwardingAllocator(inner), checking_(checking), device_(device), memory_(memory) {}

  using ForwardingAllocator::allocate;
  void* allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag = {}) override;
  void deallocate(void* address) override;
  void deallocate(void* address, StreamRef stream) override;
  void deallocate(void* address, Point marker) override;

 private:
  CheckingObserver& checking_;
  Device& device_;
  CheckedMemory memory_;
};

}  // namespace millrace
