#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "millrace/memory/out_of_memory.hpp"
#include "millrace/memory/statistics.hpp"
#include "millrace/observe/ladder.hpp"
#include "millrace/observe/sampler.hpp"

namespace millrace {

/// @file
/// The accounting as JSON: `nlohmann::json document = statistics;`. Keys of byte counts end in
/// `_bytes`, unless the whole object is in bytes. docs/accounting.md defines every quantity.

/** @brief {"current", "peak"}, in bytes. */
void to_json(nlohmann::json& out, const Gauge& gauge);
/** @brief An object of gauges: requested, allocated, active, reserved, cached. */
void to_json(nlohmann::json& out, const MemoryGauges& bytes);
void to_json(nlohmann::json& out, const MemoryCounters& counts);
void to_json(nlohmann::json& out, const MemoryStatistics& statistics);
void to_json(nlohmann::json& out, const UsableBytes& usable);
void to_json(nlohmann::json& out, const MemoryPicture& picture);
/** @brief {"last", "peak", "mean"}. */
void to_json(nlohmann::json& out, const SampledSeries& series);
void to_json(nlohmann::json& out, const FootprintSampler& footprint);
/** @brief {"l0", "l1", "l2", "l3", "reserved"}, in bytes. */
void to_json(nlohmann::json& out, const Ladder& ladder);

/** @brief Returns the name of a stream: `[&](StreamId id) { return device.name(id); }`. */
using StreamNames = std::function<std::string(StreamId)>;

/** @brief The ladder with its steps, and the blocks of each level by tag and stream. */
[[nodiscard]] nlohmann::json explain(const Ladder& ladder, const StreamNames& name);

/**
 * @brief The statistics with the keys of `torch.cuda.memory_stats()`, for tools that read those.
 *
 * Contains the totals ("...all...") and the scalars that have a counterpart here. Keys of PyTorch's
 * pools and cumulative byte counts are left out. Requested bytes are counted until the free;
 * PyTorch counts them until the free is complete.
 */
[[nodiscard]] std::map<std::string, std::uint64_t> torch_memory_stats(
    const MemoryStatistics& statistics);

}  // namespace millrace
