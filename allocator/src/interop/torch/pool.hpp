#pragma once

#include <memory>

#include "interop/plain_streams.hpp"
#include "interop/torch/booked_source.hpp"
#include "millrace/memory/capture_detector.hpp"

namespace millrace::torch {

/** @brief One of PyTorch's memory pools: an allocator with its own segments. */
class Pool {
 public:
  /** @param outer  the source of segments; nullptr: the device */
  Pool(TorchPoolId id, OrderedDevice& order, Book& book, const Policy& policy,
       std::shared_ptr<SegmentSource> outer)
      : outer_(outer != nullptr ? std::move(outer)
                                : std::make_shared<DeviceSource>(order.device())),
        source_(*outer_, book, id, policy.small_segment),
        caching_(order, source_, policy),
        detector_(caching_, GraphPool{caching_}),
        plain_(caching_, detector_, true) {}

  [[nodiscard]] Allocator& allocator() noexcept { return plain_; }
  [[nodiscard]] CachingAllocator& caching() noexcept { return caching_; }
  /** @brief Detects that a capture has ended. @return whether a capture is still in progress */
  bool poll_capture() { return detector_.poll(); }

 private:
  std::shared_ptr<SegmentSource> outer_;
  BookedSource source_;
  CachingAllocator caching_;
  CaptureDetector detector_;
  PlainStreams plain_;
};

}  // namespace millrace::torch
