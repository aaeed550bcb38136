#pragma once

#include "millrace/memory/allocator.hpp"

namespace millrace {

/**
 * @brief Forwards every call to another allocator. Derive from it to change or observe some calls.
 *
 * A batch becomes one call for each block, so that an overridden call also applies to batches.
 * Contracts, errors and thread safety are those of the inner allocator.
 */
class ForwardingAllocator : public Allocator {
 public:
  /** @brief Forwards calls to `inner`, which must outlive this object. */
  explicit ForwardingAllocator(Allocator& inner) : inner_(inner) {}

  using Allocator::allocate;
  using Allocator::deallocate;
  void* allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag = {}) override {
    return inner_.allocate(bytes, owner, first_user, tag);
  }
  void deallocate(void* address) override { inner_.deallocate(address); }
  void deallocate(void* address, StreamRef stream) override { inner_.deallocate(address, stream); }
  void deallocate(void* address, Point marker) override { inner_.deallocate(address, marker); }
  void record_use(void* address, StreamRef stream) override { inner_.record_use(address, stream); }
  void transfer(void* address, StreamRef owner) override { inner_.transfer(address, owner); }
  bool is_live(const void* address) const override { return inner_.is_live(address); }
  std::size_t trim(std::size_t keep_bytes = 0) override { return inner_.trim(keep_bytes); }
  Tag tag(std::string_view name) override { return inner_.tag(name); }
  MemoryStatistics statistics() override { return inner_.statistics(); }
  UsableBytes usable(StreamRef stream) override { return inner_.usable(stream); }
  ScopeId open_scope() override { return inner_.open_scope(); }
  MemoryGauges peaks(ScopeId scope) override { return inner_.peaks(scope); }
  void close_scope(ScopeId scope) override { inner_.close_scope(scope); }
  void observe(AllocationObserver* observer) override { inner_.observe(observer); }
  [[nodiscard]] OrderedDevice& device() const noexcept override { return inner_.device(); }

 protected:
  [[nodiscard]] Allocator& inner() const noexcept { return inner_; }

 private:
  Allocator& inner_;
};

}  // namespace millrace
