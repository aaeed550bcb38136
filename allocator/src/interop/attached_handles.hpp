#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "millrace/device/ordered_device.hpp"

namespace millrace {

/**
 * @brief Finds the attached streams of a device by their handles, without a driver call.
 *
 * An attached stream must not be destroyed before it is detached, so its handle names no other
 * stream meanwhile. A thread that finds the same handle again takes no lock. Thread-safe.
 */
class AttachedHandles {
 public:
  AttachedHandles() : serial_(next_serial()) {}

  /** @brief Returns the attached stream if `stream` is its raw handle, and otherwise `stream`. */
  [[nodiscard]] StreamRef find(StreamRef stream) const {
    if (stream.id().valid() || size_.load(std::memory_order_relaxed) == 0) return stream;
    thread_local std::array<Cached, 8> cache;
    Cached& cached = cache[reinterpret_cast<std::uintptr_t>(stream.handle().value) / 64 % 8];
    const std::uint64_t version = version_.load(std::memory_order_acquire);
    const bool is_here = cached.serial == serial_ && cached.version == version;
    if (!is_here || cached.stream.handle() != stream.handle()) {
      const std::lock_guard lock{mutex_};
      const auto it = streams_.find(stream.handle().value);
      cached = {serial_, version, it == streams_.end() ? stream : it->second};
    }
    return cached.stream;
  }

  void add(StreamRef stream) {
    const std::lock_guard lock{mutex_};
    streams_.insert_or_assign(stream.handle().value, stream);
    changed();
  }

  void remove(StreamRef stream) {
    const std::lock_guard lock{mutex_};
    const auto it = streams_.find(stream.handle().value);
    if (it == streams_.end() || it->second.id() != stream.id()) return;
    streams_.erase(it);
    changed();
  }

 private:
  struct Cached {
    std::uint64_t serial = 0;
    std::uint64_t version = 0;
    StreamRef stream{StreamHandle{}};
  };

  // No two objects get the same number, even if one is made at the address of another.
  static std::uint64_t next_serial() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }

  void changed() {
    size_.store(streams_.size(), std::memory_order_relaxed);
    version_.fetch_add(1, std::memory_order_release);
  }

  const std::uint64_t serial_;
  std::atomic<std::uint64_t> version_{1};
  std::atomic<std::size_t> size_{0};
  mutable std::mutex mutex_;
  std::unordered_map<void*, StreamRef> streams_;
};

}  // namespace millrace
