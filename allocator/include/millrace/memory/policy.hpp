#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <string>

namespace millrace {

/** @brief Which free blocks a stream is given, and when it waits rather than grows. */
enum class Sharing {
  own_stream,        ///< only what it freed itself (PyTorch)
  ordered,           ///< any block that the one rule gives it for nothing; grows before it waits
  wait_before_grow,  ///< and blocks that it has to wait for: first those used long ago, then any
  completed,         ///< only what the device is known to have finished (memory the host writes)
};

/** @brief When a block with recorded uses is free again. */
enum class Return {
  polled,  ///< when a host poll sees all its markers complete (PyTorch)
  rule,    ///< at once, to whomever the one rule gives it
};

/**
 * @brief Every decision of a CachingAllocator that is a matter of taste. Sizes in bytes.
 *
 * Sizes of the `torch` preset: PyTorch's c10/cuda/CUDACachingAllocator at 2.10. Figures of the
 * `millrace` preset: see docs/allocator.md for the experiments behind each.
 */
struct Policy {
  std::string name;

  std::size_t granule = 512;  ///< sizes are rounded up to multiples of this
  /** If > 1: and to steps between powers of two; for sizes below 2 MiB, below 4 MiB, ..., and from
   * 32 GiB on. */
  std::array<std::size_t, 16> power2_divisions{};

  std::size_t small_limit = std::size_t{1} << 20;  ///< up to here: the small pool
  std::size_t small_segment = std::size_t{2} << 20;
  std::size_t medium_limit = std::size_t{10} << 20;  ///< below here: segments of one size
  std::size_t medium_segment = std::size_t{20} << 20;
  std::size_t segment_multiple = std::size_t{2} << 20;
  /** Larger requests: segments of at least an eighth of what is reserved, as a power of two
   * within these; 0: of the request's size. */
  std::size_t large_segment_least = 0, large_segment_most = 0;

  /** Requests over `small_limit`, where the source has growable ranges: exactly the memory that is
   * missing is mapped behind what the stream has in a range of its own, in place of segments. */
  bool growable_ranges = false;

  /** Blocks above are never split and serve only requests above. */
  std::size_t max_split = std::numeric_limits<std::size_t>::max();
  std::size_t small_remainder = 512;  ///< least remainder of a split, small pool
  std::size_t large_remainder = (std::size_t{1} << 20) + 1;

  Sharing sharing = Sharing::own_stream;
  Return give_back = Return::polled;

  /** Another stream's block serves a request of at least its size over this. */
  double carve_limit = 2.0;
  /** A used block is not split for a remainder below this share of the request: sizes that vary a
   * little then find the same blocks again. */
  double slack = 0;
  /** `wait_before_grow`: a burst is what a stream allocates between two of its markers: one batch,
   * if the stream is marked once a batch.
   * Memory last used before its previous burst began is waited for. Rather than wait for other
   * memory, a stream grows while what is kept for it, live or free, stays within its highest live
   * bytes and this many bursts. */
  double spare_bursts = 2;
  /** Before it grows, a request marks the streams whose last uses of free blocks no marker covers,
   * and polls once more; and a range takes complete pages from where they are free, as far as their
   * stream did without them in its last bursts. */
  bool before_growing = false;
  /** 0 < f < 1: free old cached segments when reserved passes this share of the limit. */
  double collect_threshold = 0;

  [[nodiscard]] static Policy torch();
  [[nodiscard]] static Policy millrace();
  [[nodiscard]] static Policy pinned();  ///< for the pinned-host allocator

  [[nodiscard]] std::size_t round(std::size_t bytes) const noexcept;
  [[nodiscard]] std::size_t segment_for(std::size_t rounded, std::size_t reserved) const noexcept;
};

}  // namespace millrace
