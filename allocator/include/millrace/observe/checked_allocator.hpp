#pragma once

#include "millrace/device/checking.hpp"
#include "millrace/memory/forwarding_allocator.hpp"

namespace millrace {

/** @brief The kind of memory that a CheckedAllocator allocates. */
enum class CheckedMemory {
  device,
  pinned,  ///< used first by the host; report its accesses with `CheckingObserver::host_writes`
};

/**
 * @brief Forwards every call to another allocator and reports allocations and frees to a race
 *        checker.
 *
 * If the checker is also attached to the device, every access is checked against the one rule, and
 * memory that was reused too early, by device work or by the host, is reported. Do not use it for
 * the driver's pool, which the device itself reports to its observers.
 */
class CheckedAllocator final : public ForwardingAllocator {
 public:
  /**
   * @param inner     serves every call; outlives this object
   * @param checking  attached to `device`; outlives this object
   * @param device    the innermost device, if devices are wrapped: the one that observers see
   * @param memory    the kind of memory of `inner`
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
