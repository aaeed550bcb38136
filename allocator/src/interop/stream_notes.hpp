#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "millrace/ordering/point.hpp"
#include "ordering/stable_table.hpp"

namespace millrace {

/**
 * @brief Decides from the calls on raw streams when to record a marker.
 *
 * The decisions are hints. A missing or additional marker changes how soon memory is reused, and
 * never whether the reuse is correct. So threads that race for a note may lose a count.
 */
class StreamNotes {
 public:
  /** @brief Counts an allocation that `stream` owns. */
  void allocated(StreamId stream, std::size_t bytes) {
    Note& note = of(stream);
    note.live.fetch_add(1, std::memory_order_relaxed);
    note.bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  /** @brief Counts that an allocation of `stream` was freed or transferred. */
  void freed(StreamId stream) { of(stream).live.fetch_sub(1, std::memory_order_relaxed); }

  [[nodiscard]] bool has_live(StreamId stream) {
    return of(stream).live.load(std::memory_order_relaxed) > 0;
  }

  /**
   * @brief Notes that the calling thread makes a call on `stream`.
   * @return whether the thread's last call was on another stream, and `kWorthIt` bytes or more were
   *         allocated on `stream` since the last such return
   */
  bool turns_to(StreamId stream) {
    struct Last {
      const StreamNotes* notes = nullptr;
      StreamId stream;
    };
    thread_local Last last;
    const Last before = last;
    last = {this, stream};
    if (before.notes != this || before.stream == stream) return false;
    Note& note = of(stream);
    if (note.bytes.load(std::memory_order_relaxed) < kWorthIt) return false;
    note.bytes.store(0, std::memory_order_relaxed);
    return true;
  }

 private:
  /// Bytes that justify the cost of a marker, half a microsecond.
  static constexpr std::size_t kWorthIt = std::size_t{1} << 20;

  struct alignas(64) Note {
    std::atomic<std::uint32_t> generation{0};
    std::atomic<std::int64_t> live{0};
    std::atomic<std::size_t> bytes{0};
  };

  Note& of(StreamId stream) {
    Note* note = notes_.find(stream.slot);
    if (note == nullptr) {
      const std::lock_guard lock{growing_};
      note = &notes_.grow_to(stream.slot);
    }
    if (note->generation.load(std::memory_order_relaxed) != stream.generation) {
      note->generation = stream.generation;
      note->live = 0;
      note->bytes = 0;
    }
    return *note;
  }

  std::mutex growing_;
  ordering::StableTable<Note> notes_;
};

}  // namespace millrace
