#pragma once

#include "millrace/device/checking.hpp"
#include "millrace/memory/allocator.hpp"

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
class CheckedAllocator final : public Allocator {
 public:
  /**
   * @param checking  outlives this, and is attached to `device`
   * @param device    the one that observers see: below any that stands for it
   */
  CheckedAllocator(Allocator& inner, CheckingObserver& checking, Device& device,
                   CheckedMemory memory = CheckedMemory::device)
      : inner_(inner), checking_(checking), device_(device), memory_(memory) {}

  using Allocator::allocate;
  void* allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag = {}) override;
  void deallocate(void* address) override;
  void deallocate(void* address, StreamRef stream) override;
  void deallocate(void* address, Point marker) override;
  void record_use(void* address, StreamRef stream) override { inner_.record_use(address, stream); }
  void transfer(void* address, StreamRef owner) override { inner_.transfer(address, owner); }
  std::size_t trim(std::size_t keep_bytes = 0) override { return inner_.trim(keep_bytes); }
  Tag tag(std::string_view name) override { return inner_.tag(name); }
  MemoryStatistics statistics() override { return inner_.statistics(); }
  UsableBytes usable(StreamRef stream) override { return inner_.usable(stream); }
  ScopeId open_scope() override { return inner_.open_scope(); }
  MemoryGauges peaks(ScopeId scope) override { return inner_.peaks(scope); }
  void close_scope(ScopeId scope) override { inner_.close_scope(scope); }
  void observe(AllocationObserver* observer) override { inner_.observe(observer); }
  OrderedDevice& device() const noexcept override { return inner_.device(); }

 private:
  Allocator& inner_;
  CheckingObserver& checking_;
  Device& device_;
  CheckedMemory memory_;
};

}  // namespace millrace
