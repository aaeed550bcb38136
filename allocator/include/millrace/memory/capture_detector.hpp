#pragma once

#include <mutex>
#include <optional>

#include "millrace/memory/forwarding_allocator.hpp"
#include "millrace/memory/graph_pool.hpp"

namespace millrace {

/**
 * @brief Finds out that a stream is captured when it is given to a call, and announces it.
 *
 * For programs that can not announce their captures (docs/graph-capture.md). Costs one driver call,
 * `Device::capturing`, in each call that names a stream. All that is captured at one time counts as
 * one capture into the pool, and has ended when a stream of it is found not to be captured any
 * more; edges within it are not known, so that its streams share memory after it only.
 *
 * Raw handles have to be known to the device before they are captured, from any earlier call.
 */
class CaptureDetector final : public ForwardingAllocator {
 public:
  /** @param inner  serves every call; it outlives this object  @param pool  one of `inner`'s */
  CaptureDetector(CachingAllocator& inner, GraphPool pool);
  ~CaptureDetector() override;

  using Allocator::allocate;
  void* allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag = {}) override;
  void deallocate(void* address) override { ForwardingAllocator::deallocate(address); }
  void deallocate(void* address, StreamRef stream) override;
  void deallocate(void* address, Point marker) override {
    ForwardingAllocator::deallocate(address, marker);
  }
  void record_use(void* address, StreamRef stream) override;
  void transfer(void* address, StreamRef owner) override;

  /** @brief Asks whether the capture goes on, if there is one. @return whether it does */
  bool poll();

 private:
  void look_at(StreamRef stream);
  bool still_captured();

  const GraphPool pool_;
  std::mutex mutex_;  // of everything below
  std::optional<GraphCapture> capture_;
  StreamRef origin_{StreamHandle{}};
};

}  // namespace millrace
