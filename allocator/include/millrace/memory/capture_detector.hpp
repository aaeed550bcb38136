#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "millrace/device/mutex.hpp"
#include "millrace/memory/forwarding_allocator.hpp"
#include "millrace/memory/graph_pool.hpp"

namespace millrace {

/**
 * @brief Finds captures that the program does not announce, and announces them to an allocator.
 *
 * For programs that cannot announce their captures (docs/graph-capture.md). Each call that names a
 * stream asks the driver whether that stream is captured, which costs one driver call
 * (`Device::capture_status`), and two driver calls if a capture has begun or ended. Calls from a
 * host callback do not ask, because a callback must not make driver calls.
 *
 * The detector treats all streams that are captured at one time as one capture into the pool. That
 * capture ends when one of its streams is found not to be captured. The detector does not see the
 * edges within a capture, so the capture's streams do not reuse each other's memory.
 *
 * If a stream is captured before any call named its raw handle, the detector does not ask for its
 * id. If such a stream frees general memory, other streams can use that memory only after the next
 * device synchronization.
 */
class CaptureDetector final : public ForwardingAllocator {
 public:
  /**
   * @brief Forwards calls to `inner`, and adds captures to `pool`.
   * @param inner  serves every call; must outlive the detector
   * @param pool   a pool of `inner`
   */
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

  /**
   * @brief Asks the driver whether the current capture continues. Ends it if it does not.
   * @return true if a capture continues
   */
  bool poll();

 private:
  /** @brief A capture, and the stream whose state shows whether it continues. */
  struct Watched {
    std::uint64_t number;
    StreamRef origin;
  };

  void look_at(StreamRef stream);
  [[nodiscard]] bool asks_captured(StreamRef stream) const;
  [[nodiscard]] std::optional<Watched> watched() const;
  bool still_captured(const Watched& seen);

  const GraphPool pool_;
  std::atomic<bool> capturing_{false};  // for host callbacks, which must not wait for a lock
  mutable Mutex mutex_;  // of everything below; held while a capture is announced or ended
  std::optional<GraphCapture> capture_;
  StreamRef origin_{StreamHandle{}};
  std::uint64_t captures_ = 0;  // number of captures found
};

}  // namespace millrace
