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
  /// waits for their stream. Only a trace of Millrace's has these waits.
  handed_over,
};

[[nodiscard]] const char* to_string(ProgramChange change) noexcept;  ///< "none", "one stream", ...

/**
 * @brief The stream whose blocks hold most memory at once; std::nullopt: no stream has blocks.
 *        Memory for all streams at once does not count.
 */
[[nodiscard]] std::optional<std::uint32_t> main_stream(const trace::AllocationLog& log,
                                                       std::uint32_t device);

/**
 * @brief The requests of one device as the changed program would make them.
 * @param main  the stream that has all blocks then; with `ring`, that which has no fixed buffers
 * @return a log without segments; its replays begin with the blocks that were live. With `ring` it
 *         has the blocks of `main` alone, and `ring_bytes` has the rest
 */
[[nodiscard]] trace::AllocationLog changed(const trace::AllocationLog& log, std::uint32_t device,
                                           ProgramChange change, std::uint32_t main);

/** @brief The bytes of the fixed buffers of all streams but `main`. */
[[nodiscard]] std::uint64_t ring_bytes(const trace::AllocationLog& log, std::uint32_t device,
                                       std::uint32_t main);

/** @brief The changes that make a difference for this device: streams beside `main` with blocks,
 * and frees that do not complete at once. Never `none`. */
[[nodiscard]] std::vector<ProgramChange> possible_changes(const trace::AllocationLog& log,
                                                          std::uint32_t device, std::uint32_t main);

}  // namespace millrace
