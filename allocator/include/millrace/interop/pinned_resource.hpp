#pragma once

#include <memory_resource>
#include <new>

#include "millrace/memory/allocator.hpp"

namespace millrace {

/**
 * @brief Pinned host memory for containers: std::pmr::vector<float> batch{&resource}.
 *
 * A vector that is copied to a GPU by `stream` may be destroyed at once: its memory is given to
 * another only after the copies that were enqueued on `stream` have ended. Work on other streams
 * has to be recorded (Allocator::record_use) or complete.
 */
class PinnedResource final : public std::pmr::memory_resource {
 public:
  /**
   * @param pinned  an allocator of pinned memory (PinnedSource, Policy::pinned()); outlives this
   * @param stream  the stream whose copies use the memory
   */
  PinnedResource(Allocator& pinned, StreamRef stream) noexcept : pinned_(pinned), stream_(stream) {}

 private:
  static constexpr std::size_t kAlignment = 256;

  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (alignment > kAlignment) throw std::bad_alloc{};
    return pinned_.allocate(bytes == 0 ? 1 : bytes, stream_);
  }
  void do_deallocate(void* address, std::size_t, std::size_t) override {
    pinned_.deallocate(address);
  }
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    const auto* const same = dynamic_cast<const PinnedResource*>(&other);
    return same != nullptr && &same->pinned_ == &pinned_;  // one frees what another allocated
  }

  Allocator& pinned_;
  StreamRef stream_;
};

}  // namespace millrace
