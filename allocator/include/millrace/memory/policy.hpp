#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace millrace {

/** @brief Which free blocks a stream may get, and whether it waits before memory grows. */
enum class Sharing {
  own_stream,        ///< only blocks that the stream freed itself (PyTorch)
  ordered,           ///< any block that the one rule allows without a wait; then memory grows
  wait_before_grow,  ///< also blocks that need a wait: first those used long ago, then any
  completed,         ///< only blocks whose uses are complete (memory that the host writes)
};

/** @brief When a block with recorded uses becomes free. */
enum class FreeWhen {
  polled,  ///< when a host poll finds all its markers complete (PyTorch)
  rule,    ///< at once, for any stream that the one rule allows
};

/**
 * @brief The decisions of a CachingAllocator. Sizes are in bytes.
 *
 * The sizes of the preset `torch` are those of PyTorch 2.10 (c10/cuda/CUDACachingAllocator).
 * docs/allocator-experiments.md has the experiments that chose the values of the preset `millrace`.
 */
struct Policy {
  std::string name;

  std::size_t granule = 512;  ///< request sizes are rounded up to multiples of this
  /// For each range of sizes, the number of steps between two powers of two to which a size is
  /// rounded up; 0 or 1: use only `granule`. The first entry is for sizes below 2 MiB, the second
  /// for sizes below 4 MiB, and so on; the last one is for 32 GiB and more.
  std::array<std::size_t, 16> power2_divisions{};

  std::size_t small_limit = std::size_t{1} << 20;    ///< largest request of the small pool
  std::size_t small_segment = std::size_t{2} << 20;  ///< segment size of the small pool
  /// Larger requests below this size use segments of `medium_segment` bytes, unless
  /// `large_segment_most` is set.
  std::size_t medium_limit = std::size_t{10} << 20;
  std::size_t medium_segment = std::size_t{20} << 20;
  std::size_t segment_multiple = std::size_t{2} << 20;  ///< other segment sizes are multiples
  /// If `large_segment_most` > 0: segments for requests above `small_limit` have an eighth of the
  /// reserved bytes, rounded down to a power of two and limited to these bounds, or the size of the
  /// request if that is larger.
  std::size_t large_segment_least = 0, large_segment_most = 0;

  /// For requests above `small_limit`, if the source has growable ranges: each stream has its own
  /// address range, and exactly the missing memory is mapped at its end, instead of a new segment.
  bool growable_ranges = false;

  /// PyTorch's `expandable_segments`, if the source has growable ranges: each pool of a stream has
  /// its own address ranges. A request that no free block serves maps the pages that it lacks at
  /// the lowest addresses that have none, directly after a free block if possible. Pages have
  /// `small_segment` or `medium_segment` bytes, rounded up to whole pages of the source.
  bool expandable_segments = false;

  /// Larger blocks are never split, and serve only requests that are larger than this too.
  std::size_t max_split = std::numeric_limits<std::size_t>::max();
  std::size_t small_remainder = 512;  ///< smallest remainder of a split in the small pool
  /// Smallest remainder of a split of a larger block.
  std::size_t large_remainder = (std::size_t{1} << 20) + 1;

  Sharing sharing = Sharing::own_stream;
  FreeWhen free_when = FreeWhen::polled;

  /// A block of another stream serves a request only if it is at most this many times larger.
  /// Otherwise a small request would cut up the largest block of another stream.
  double carve_limit = 2.0;
  /// A reused block is not split if the remainder is below this fraction of the request. Sizes that
  /// vary a little then find the same blocks again. `lean_above` limits it.
  double slack = 0;
  /// For `wait_before_grow`. A *burst* is what a stream allocates between two of its markers: one
  /// batch, if the stream is marked once per batch. A request waits for memory that was last used
  /// before the stream's previous burst began. For other memory it waits only if the stream has
  /// enough: it grows while the memory kept for the stream, live or free, is at most the stream's
  /// highest live bytes plus this many bursts.
  double spare_bursts = 2;
  /// Before a request makes memory grow, it marks the streams whose last uses of free blocks no
  /// marker covers, and polls once more. A growable range also takes free pages that its stream may
  /// use from other places. It leaves the pages that their streams needed in their last bursts, up
  /// to `lean_above`.
  bool before_growing = false;
  /// After this many bytes of such pages were moved, one request takes some new memory although
  /// more pages could be moved. A fraction of the bytes reserved at the first move; above 0. While
  /// enough pages can be moved, that request maps this fraction of the bytes reserved then, rounded
  /// up to whole pages, and moves the rest. The amount doubles after each such growth. Moving takes
  /// host time: about 25 us for each page of 32 MiB on an H100 (derived; the profiles'
  /// memory.alias_time), 39 us on an H200 (measured). With infinity, a request maps new memory only
  /// for bytes that no page can be moved for. That reserves the least memory, and costs no step
  /// time while the host runs ahead of the device.
  double moved_before_growth = 1.0 / 64;
  /// Limits what three rules that spare host time add to the reserved bytes of a program that runs
  /// for long. From this excess of the reserved bytes over the highest requested bytes on, a
  /// fraction of 0 or more, no request has a turn to grow (`moved_before_growth`), and while the
  /// requested bytes are less than twice this excess below their highest value, a remainder of a
  /// page or more is split off in spite of `slack`. From one and a half times this excess on,
  /// requests also take pages that other streams needed in their last bursts. An excess of up to 8
  /// pages is always allowed. More pages are moved then, which takes host time. Infinity: the rules
  /// have no limit. Applies with `before_growing`. Without growable ranges, twice this excess (at
  /// least `large_segment_least`) is the limit of another rule: if segments go on being added
  /// beyond it, streams take each other's complete blocks, and these merge.
  double lean_above = 1.0 / 16;
  /// If between 0 and 1: free old cached segments when the reserved bytes exceed this fraction of
  /// the limit.
  double collect_threshold = 0;

  [[nodiscard]] static Policy torch();  ///< PyTorch's decisions
  /// PyTorch's decisions with `expandable_segments:True`.
  [[nodiscard]] static Policy torch_expandable();
  [[nodiscard]] static Policy millrace();  ///< the default of Millrace's own allocators
  [[nodiscard]] static Policy pinned();    ///< for allocators of pinned host memory

  /**
   * @brief Returns one of the presets above.
   * @param name  the preset's `name`
   * @throws std::invalid_argument for an unknown name; the message lists the known ones
   */
  [[nodiscard]] static Policy named(std::string_view name);

  /** @brief Returns the size of the block for a request of `bytes` bytes. */
  [[nodiscard]] std::size_t round(std::size_t bytes) const noexcept;
  /**
   * @brief Returns whether `round` rounds every size up to a multiple of one granule, a power of
   *        two.
   */
  [[nodiscard]] bool rounds_to_granule() const noexcept;
  /**
   * @brief Returns the size of a new segment in bytes.
   * @param rounded   bytes of the block that the segment is for, from `round`
   * @param reserved  bytes that the allocator has reserved so far
   */
  [[nodiscard]] std::size_t segment_for(std::size_t rounded, std::size_t reserved) const noexcept;
};

}  // namespace millrace
