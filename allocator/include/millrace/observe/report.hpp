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
/// The accounting as JSON: `nlohmann::json document = statistics;`. Bytes end in `_bytes`, unless
/// a whole object is in bytes; docs/accounting.md defines every quantity.

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

/** @brief What a stream is called: `[&](StreamId id) { return device.name(id); }`. */
using StreamNames = std::function<std::string(StreamId)>;

/** @brief The ladder with its steps, and with what each level consists of by tag and stream. */
[[nodiscard]] nlohmann::json explain(const Ladder& ladder, const StreamNames& name);

/**
 * @brief The keys of `torch.cuda.memory_stats()` that have a counterpart here, for tools that read
 *        those: the totals ("...all..."), and the scalars.
 *
 * PyTorch counts requested bytes until a free is complete, and this until the free. Keys of its
 * pools, and cumulative byte counts, are left out and not made up.
 */
[[nodiscard]] std::map<std::string, std::uint64_t> torch_memory_stats(
    const MemoryStatistics& statistics);

}  // namespace millrace
