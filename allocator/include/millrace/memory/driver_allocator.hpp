#pragma once

#include <memory>

#include "millrace/memory/allocator.hpp"

namespace millrace {

/**
 * @brief The preset `driver`: the driver's stream-ordered pool (cudaMallocAsync) as an Allocator.
 *
 * The pool knows only stream order. If a block has recorded uses, a free makes the freeing stream
 * wait for them, which delays that stream; `cudaFreeAsync` has no other way. If no wait is
 * possible (in a host callback, or for an independent stream), the memory is kept until its uses
 * are complete, and a later allocation or trim frees it.
 */
class DriverAllocator final : public Allocator {
 public:
  /**
   * @brief Serves memory of `device`, which outlives the allocator.
   * @throws DeviceError `not_supported` if the device has no pool
   */
  explicit DriverAllocator(OrderedDevice& device);
  ~DriverAllocator() override;

  using Allocator::allocate;
  using Allocator::deallocate;
  void* allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag = {}) override;
  void deallocate(void* address) override;
  void deallocate(void* address, StreamRef stream) override;
  void deallocate(void* address, Point marker) override;
  void record_use(void* address, StreamRef stream) override;
  void transfer(void* address, StreamRef new_owner) override;
  bool is_live(const void* address) const override;
  std::size_t trim(std::size_t keep_bytes = 0) override;
  Tag tag(std::string_view name) override;
  MemoryStatistics statistics() override;
  UsableBytes usable(StreamRef stream) override;
  ScopeId open_scope() override;
  MemoryGauges peaks(ScopeId scope) override;
  void close_scope(ScopeId scope) override;
  void observe(AllocationObserver* observer) override;
  [[nodiscard]] OrderedDevice& device() const noexcept override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
