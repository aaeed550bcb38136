#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/** @brief Changes to a program that a recorded log can be replayed with. */
enum class ProgramChange : std::uint8_t {
  none,
  /// Blocks of all streams belong to one stream, which the others wait for before they write: the
  /// copy strategies `in-place` and `precise`. A free is usable at once.
  one_stream,
  /// Each side stream has fixed buffers, as large as it ever needs at once, for the whole run: the
  /// copy strategy `ring`, without headroom.
  ring,
  /// No use on another stream is recorded: the program holds a block until that use is complete.
  no_recorded_uses,
  /// Blocks of side streams are handed to the main stream (`Allocator::transfer`) where it first
  /// waits for their stream. Only a trace in Millrace's format has these waits.
  handed_over,
};

[[nodiscard]] const char* to_string(ProgramChange change) noexcept;  ///< "none", "one stream", ...

/**
 * @brief The stream whose blocks hold most memory at once. Memory for all streams at once does not
 *        count.
 * @return index into the log's streams; std::nullopt: no stream has blocks
 */
[[nodiscard]] std::optional<std::uint32_t> main_stream(const trace::AllocationLog& log,
                                                       std::uint32_t device);

/**
 * @brief The requests of one device as the changed program would make them.
 * @param main  the stream that owns all blocks of the changed program; with `ring`, the stream
 *              without fixed buffers
 * @return a log without segments; its replays begin with the blocks that were live. With `ring` it
 *         has only the blocks of `main`; `ring_bytes` returns the bytes of the other streams
 */
[[nodiscard]] trace::AllocationLog changed(const trace::AllocationLog& log, std::uint32_t device,
                                           ProgramChange change, std::uint32_t main);

/** @brief The bytes of the fixed buffers of all streams except `main`. */
[[nodiscard]] std::uint64_t ring_bytes(const trace::AllocationLog& log, std::uint32_t device,
                                       std::uint32_t main);

/** @brief The changes that make a difference for this device. Depends on whether streams other than
 *         `main` have blocks, and whether frees complete later. Never contains `none`. */
[[nodiscard]] std::vector<ProgramChange> possible_changes(const trace::AllocationLog& log,
                                                          std::uint32_t device, std::uint32_t main);

}  // namespace millrace
