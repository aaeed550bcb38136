#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/observe/trace/value_tree.hpp"
#include "millrace/observe/trace/warnings.hpp"

namespace millrace::trace {

enum class BlockState : std::uint8_t {
  inactive,      ///< free, in the allocator's cache
  allocated,     ///< in use
  pending_free,  ///< freed by the program, its recorded uses not yet seen complete
};

/** @brief Which pool of PyTorch: (0, 0) is the default one, others are of CUDA graphs and MemPools.
 */
using TorchPool = std::pair<std::int64_t, std::int64_t>;

/** @brief A stretch of a segment. Blocks of one segment follow each other without gaps. */
struct TorchBlock {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;      ///< of the block, rounding and an unsplit rest included
  std::uint64_t requested = 0;  ///< by the program; 0 if inactive
  BlockState state = BlockState::inactive;

  friend bool operator==(const TorchBlock&, const TorchBlock&) = default;
};

/** @brief What PyTorch has from the driver in one piece: one cudaMalloc, or one contiguous mapped
 * stretch of an expandable segment. */
struct TorchSegment {
  std::uint32_t device = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::int64_t stream = 0;  ///< raw handle of the stream that it was made for
  bool large = false;       ///< of the pool for requests over 1 MiB
  bool expandable = false;
  TorchPool pool{0, 0};
  std::vector<TorchBlock> blocks;  ///< by address

  friend bool operator==(const TorchSegment&, const TorchSegment&) = default;
};

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
  other,  ///< one that this reader does not know; noted in the warnings
};

[[nodiscard]] const char* to_string(TorchAction action) noexcept;

struct TorchEvent {
  TorchAction action = TorchAction::other;
  std::uint64_t address = 0;           ///< for out_of_memory, what the device had free
  std::uint64_t bytes = 0;             ///< requested, for alloc and free; else of the segment
  std::int64_t stream = 0;             ///< raw handle
  std::int64_t time_us = 0;            ///< since the epoch
  std::optional<TorchPool> pool = {};  ///< told by newer versions only

  friend bool operator==(const TorchEvent&, const TorchEvent&) = default;
};

/** @brief The settings of PyTorch's allocator that decide where blocks go. */
struct TorchSettings {
  static constexpr std::uint64_t kUnlimited = UINT64_MAX;

  std::uint64_t max_split_size = kUnlimited;
  /// Steps between powers of two, for sizes below 2 MiB, below 4 MiB, ... and from 32 GiB; 0 or 1
  /// is plain rounding to 512.
  std::array<std::uint64_t, 16> roundup_power2_divisions{};
  double garbage_collection_threshold = 0;
  bool expandable_segments = false;
  std::uint64_t large_segment_size = std::uint64_t{20} << 20;      ///< for requests of 1 to 10 MiB
  std::uint64_t max_non_split_rounding = std::uint64_t{20} << 20;  ///< beyond max_split_size
  std::string configuration;                                       ///< PYTORCH_CUDA_ALLOC_CONF

  friend bool operator==(const TorchSettings&, const TorchSettings&) = default;
};

/** @brief The size that PyTorch gives to a request, before it looks for a block. */
[[nodiscard]] std::uint64_t torch_rounded(std::uint64_t requested, const TorchSettings& settings);

/** @brief torch.cuda.memory._snapshot(), less its stack frames and annotations. */
struct TorchSnapshot {
  std::vector<TorchSegment> segments;           ///< at the end of the trace
  std::vector<std::vector<TorchEvent>> traces;  ///< by device, each in order of time
  TorchSettings settings;
  /// What was subtracted from every address: 0, unless one is beyond the 48 bits that allocators
  /// here take.
  std::uint64_t base = 0;
};

/**
 * @brief Takes a snapshot out of the plain data of its file. Keys that older versions of PyTorch do
 * not write may be missing; keys that nobody knows are passed over.
 * @param source    the file's name, for messages
 * @param warnings  gets what does not add up but can be lived with
 * @throws ParseError with the path of keys, if something has the wrong type, a needed key is
 * missing, or a size is negative or beyond the address space of 57 bits, or addresses beyond 48
 * bits lie further apart than 47
 */
[[nodiscard]] TorchSnapshot read_torch_snapshot(const ValueTree& tree, const std::string& source,
                                                Warnings& warnings);

}  // namespace millrace::trace
