#pragma once

#include <cstdint>
#include <string>

#include "millrace/memory/allocator.hpp"
#include "torch/shim.h"

namespace millrace {

/**
 * @brief PyTorch's own caching allocator with Millrace's interface, for comparisons.
 *
 * PyTorch orders frees on the owner. `deallocate` with another stream records a use on that stream
 * and then frees. `deallocate` with a marker is a plain free: if the marker's stream is not the
 * owner, its use must be recorded first. Bytes per stream, bytes per tag and usable bytes are
 * unknown. Not thread-safe.
 */
class TorchAllocator final : public Allocator {
 public:
  /**
   * @param library  the compiled shim (bench/torch/shim.cpp)
   * @param ordinal  the GPU of `device`
   * @throws std::runtime_error if the library or PyTorch cannot be loaded
   */
  TorchAllocator(OrderedDevice& device, int ordinal, const std::string& library);
  ~TorchAllocator() override;
  TorchAllocator(const TorchAllocator&) = delete;
  TorchAllocator& operator=(const TorchAllocator&) = delete;

  /** @brief The version of PyTorch. */
  [[nodiscard]] std::string version() const;

  using Allocator::allocate;
  void* allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag = {}) override;
  void deallocate(void* address) override;
  void deallocate(void* address, StreamRef stream) override;
  void deallocate(void* address, Point marker) override;
  void record_use(void* address, StreamRef stream) override;
  /** @throws std::logic_error always: PyTorch's blocks keep their stream */
  void transfer(void* address, StreamRef owner) override;
  /** @brief Releases all free memory. It ignores `keep_bytes`. */
  std::size_t trim(std::size_t keep_bytes = 0) override;
  Tag tag(std::string_view) override { return {}; }
  MemoryStatistics statistics() override;
  UsableBytes usable(StreamRef) override { return {}; }
  /** @brief PyTorch has one set of peaks. Every scope returns the peaks since this allocator was
   *         made. */
  ScopeId open_scope() override { return {}; }
  MemoryGauges peaks(ScopeId) override { return statistics().bytes; }
  void close_scope(ScopeId) override {}
  /** @throws std::logic_error for an observer, because PyTorch does not report to observers */
  void observe(AllocationObserver* observer) override;
  OrderedDevice& device() const noexcept override { return device_; }

 private:
  OrderedDevice& device_;
  const MillraceTorch* torch_;
  std::uint64_t allocations_ = 0, frees_ = 0;
};

}  // namespace millrace
