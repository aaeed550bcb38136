#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/observe/trace/stacks.hpp"
#include "millrace/observe/trace/value_tree.hpp"
#include "millrace/observe/trace/warnings.hpp"

namespace millrace::trace {

/** @brief The state of a block in PyTorch's allocator. */
enum class BlockState : std::uint8_t {
  inactive,      ///< free, in the allocator's cache
  allocated,     ///< in use
  pending_free,  ///< freed by the program; recorded uses are not known to be complete
};

/** @brief A pool of PyTorch: (0, 0) is the default pool, others belong to CUDA graphs and MemPools.
 */
using TorchPool = std::pair<std::int64_t, std::int64_t>;

/** @brief A block of a segment. The blocks of a segment follow each other without gaps. */
struct TorchBlock {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;      ///< size, including rounding and an unsplit remainder
  std::uint64_t requested = 0;  ///< requested bytes; 0 if inactive
  BlockState state = BlockState::inactive;
  StackTable::Id stack = StackTable::kNone;  ///< where it was allocated
  LabelTable::Id label = LabelTable::kNone;  ///< the program's own text about it

  friend bool operator==(const TorchBlock&, const TorchBlock&) = default;
};

/** @brief Memory that PyTorch got from the driver in one piece: one cudaMalloc, or one contiguous
 *         mapped part of an expandable segment. */
struct TorchSegment {
  std::uint32_t device = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::int64_t stream = 0;  ///< handle of the stream that it was made for; Millrace's: a number
  bool large = false;       ///< belongs to the pool for requests over 1 MiB
  bool expandable = false;
  TorchPool pool{0, 0};
  std::vector<TorchBlock> blocks;  ///< by address

  friend bool operator==(const TorchSegment&, const TorchSegment&) = default;
};

/** @brief The kinds of events in a PyTorch trace. */
enum class TorchAction : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  snapshot,
  out_of_memory,
  annotate,  ///< the program attached a text to a block; 2.14
  other,     ///< unknown to this reader; noted in the warnings
};

[[nodiscard]] const char* to_string(TorchAction action) noexcept;

/** @brief One event of a PyTorch trace. */
struct TorchEvent {
  TorchAction action = TorchAction::other;
  std::uint64_t address = 0;           ///< for out_of_memory: the device's free bytes
  std::uint64_t bytes = 0;             ///< alloc, free: requested bytes; otherwise segment size
  std::int64_t stream = 0;             ///< handle; in Millrace's snapshots a number
  std::int64_t time_us = 0;            ///< since the epoch
  std::optional<TorchPool> pool = {};  ///< written by newer versions of PyTorch only
  StackTable::Id stack = StackTable::kNone;
  LabelTable::Id label = LabelTable::kNone;  ///< `user_metadata`, otherwise `category`

  friend bool operator==(const TorchEvent&, const TorchEvent&) = default;
};

/** @brief The begin or the end of a range that the program or its profiler named. */
struct TorchMark {
  LabelTable::Id name = LabelTable::kNone;
  bool begins = false;
  std::uint32_t device = 0;
  std::int64_t time_us = 0;

  friend bool operator==(const TorchMark&, const TorchMark&) = default;
};

/** @brief The settings of PyTorch's allocator that affect its decisions. */
struct TorchSettings {
  static constexpr std::uint64_t kUnlimited = UINT64_MAX;

  std::uint64_t max_split_size = kUnlimited;
  /// Steps between powers of two for sizes below 2 MiB, below 4 MiB, ..., and for 32 GiB and more;
  /// 0 or 1: rounding to multiples of 512 only.
  std::array<std::uint64_t, 16> roundup_power2_divisions{};
  double garbage_collection_threshold = 0;
  bool expandable_segments = false;
  std::uint64_t large_segment_size = std::uint64_t{20} << 20;      ///< for requests of 1 to 10 MiB
  std::uint64_t max_non_split_rounding = std::uint64_t{20} << 20;  ///< beyond max_split_size
  std::string configuration;                                       ///< PYTORCH_CUDA_ALLOC_CONF

  friend bool operator==(const TorchSettings&, const TorchSettings&) = default;
};

/** @brief The size to which PyTorch rounds a request before it searches for a block. */
[[nodiscard]] std::uint64_t torch_rounded(std::uint64_t requested, const TorchSettings& settings);

/** @brief torch.cuda.memory._snapshot(). */
struct TorchSnapshot {
  std::vector<TorchSegment> segments;           ///< at the end of the trace
  std::vector<std::vector<TorchEvent>> traces;  ///< by device, each in order of time
  std::vector<TorchMark> marks;                 ///< `external_annotations`, in order of time
  /// @name Pinned host memory, if it was recorded (2.14)
  /// Each segment has one block. Requested sizes are not recorded, so the snapshot has sizes of
  /// blocks instead.
  /// @{
  std::vector<TorchSegment> host_segments;
  std::vector<TorchEvent> host_trace;
  /// @}
  TorchSettings settings;
  StackTable stacks;
  LabelTable labels;
  /// The base that was subtracted from every address: 0, unless an address has more than the 48
  /// bits that Millrace's allocators support.
  std::uint64_t base = 0;
  /// Millrace wrote the file about its own allocators, whose decisions may be PyTorch's.
  bool of_millrace = false;
};

/**
 * @brief Extracts a snapshot from the plain data of its file.
 *
 * Keys that older versions of PyTorch do not write may be missing; unknown keys are ignored.
 * @param tree      the data of the file
 * @param source    name of the file, for messages
 * @param warnings  receives contradictions that can be tolerated
 * @throws ParseError with the path of keys, if a value has the wrong type, a required key is
 *         missing, a size is negative or exceeds the address space of 57 bits, or addresses beyond
 *         48 bits are more than 2^47 bytes apart
 */
[[nodiscard]] TorchSnapshot read_torch_snapshot(const ValueTree& tree, const std::string& source,
                                                Warnings& warnings);

}  // namespace millrace::trace
