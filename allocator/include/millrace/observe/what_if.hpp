#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "millrace/device/profile.hpp"
#include "millrace/memory/policy.hpp"
#include "millrace/observe/driver_model.hpp"
#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/** @brief Another way to make a side stream's allocations. */
enum class WhatIfStrategy : std::uint8_t {
  /// The main stream owns the block. Before each allocation the side stream waits for all work that
  /// main has enqueued.
  in_place,
  /// The main stream owns the block, and the side stream is its first user. The side stream waits
  /// for the last use of this memory only.
  precise,
  /// The side stream allocates as now. The block is handed to main (`Allocator::transfer`) where
  /// main first waits for the side stream.
  transfer,
  /// The program keeps buffers: as many as were ever in use at once at the same site, each 30%
  /// larger than its request. The side stream waits for the last use of a buffer.
  ring,
  /// The program keeps buffers, and no stream waits for one. A buffer is used again once its last
  /// use is known to be complete. If no buffer is free, the program adds one.
  free_list,
};

/** @brief "in-place", "precise", "transfer", "ring" or "free-list". */
[[nodiscard]] const char* to_string(WhatIfStrategy strategy) noexcept;

/**
 * @brief The lowest and the highest peak of `millrace run`, in bytes. The peak depends on when the
 *        GPU completes work that the program does not wait for.
 */
struct ModeledRun {
  std::size_t least = 0;
  std::size_t most = 0;
  bool waits = false;  ///< whether a stream may be made to wait before memory grows (`--wait`)
};

/** @brief The peaks that each allocator would have reserved for the same requests, in bytes. */
struct WhatIfReserved {
  /// The driver's pool and cudaMalloc; nothing: the requests did not fit.
  std::optional<DriverModel> driver;
  std::optional<std::size_t> torch;     ///< PyTorch's decisions
  std::optional<std::size_t> millrace;  ///< Policy::millrace(), which may make a stream wait
  /// @name Waits that the allocator itself inserted
  /// @{
  std::size_t torch_waits = 0;
  std::size_t millrace_waits = 0;
  /// @}
};

/** @brief Free bytes of one stream and site that no other stream could have had. */
struct WhatIfStranded {
  std::string stream;     ///< stream for which the memory was allocated
  std::string site;       ///< the site of its allocation; "" if unknown
  std::string waits_for;  ///< the stream whose work may still have used it
  std::size_t bytes = 0;
};

/** @brief The cost of a strategy in time. */
struct WhatIfCost {
  /// Number of waits of the side stream that the program adds. With `precise` the allocator adds
  /// them where they are needed; WhatIfReserved counts them.
  std::size_t waits = 0;
  bool waits_are_known = true;
  /// Upper bound, in microseconds, of the delay of the side stream's work: the time from each wait
  /// until the trace knows that the awaited work is complete. Overlapping times count once. Waits
  /// of the allocator are not included. std::nullopt: not known.
  std::optional<std::int64_t> most_delay_us = 0;
  /// Host time of the additional calls, by the profile; std::nullopt: not known.
  std::optional<double> host_us;
};

/** @brief Allocations of one stream that could be made in another way. */
struct WhatIfMove {
  WhatIfStrategy strategy = WhatIfStrategy::in_place;
  std::string stream, to;            ///< "all side streams": every stream except `to`
  std::string site;                  ///< "": all allocations of the stream
  std::vector<std::uint64_t> sizes;  ///< the different sizes of these blocks, the largest first
  std::size_t blocks = 0;            ///< number of allocations that are made in another way
  /// Number of all allocations of the stream and site. `transfer` does not change the blocks for
  /// which main never waits, so `blocks` can be smaller.
  std::size_t group_blocks = 0;
  WhatIfReserved reserved;
  WhatIfCost cost;
};

/** @brief The memory of a program's requests on each allocator, and changes that save memory. */
struct WhatIf {
  std::optional<std::size_t> recorded;  ///< peak of bytes that the recorded allocators reserved
  std::size_t load = 0;                 ///< most requested bytes at once: nothing needs less
  WhatIfReserved reserved;
  /// The bytes that `millrace run` would have reserved. `what_if` does not set it.
  std::optional<ModeledRun> run;
  /// With torch's decisions, which leave free memory with its stream; the most bytes first.
  std::vector<WhatIfStranded> stranded;
  /// The moves that save memory on at least one allocator, in the order of what torch's decisions
  /// would have reserved.
  std::vector<WhatIfMove> moves;
};

/** @brief How `what_if` computes. */
struct WhatIfOptions {
  std::string profile = "h200";  ///< the device profile that gives the host times of calls
  /// With more events, the sites of a stream are tried with `in_place` only. A stream as a whole is
  /// tried with all strategies.
  std::size_t most_events_of_sites = 5'000;
};

/**
 * @brief Replays one device of a Millrace trace on each allocator: unchanged, and with allocations
 *        of side streams made in each other way.
 *
 * The main stream is the one that holds most memory. All bytes come from replays of the changed
 * requests, in the recorded order. It tries all side streams together, each of the six that
 * allocate most bytes, and the six largest sites of each of these, at most twelve sites in all. It
 * makes up to 390 replays, half of them of the driver's pool.
 * @param log      a trace that Millrace recorded
 * @param device   number of the device in the log
 * @throws std::invalid_argument if `options.profile` is not the name of a profile
 */
[[nodiscard]] WhatIf what_if(const trace::AllocationLog& log, std::uint32_t device,
                             const WhatIfOptions& options = {});

/**
 * @brief Replays the requests on an allocator with this policy. Finds the moment at which the sum
 *        of live bytes and free bytes that no other stream could use is greatest, and returns these
 *        free bytes by stream.
 * @throws out_of_memory if the requests do not fit
 */
[[nodiscard]] std::vector<WhatIfStranded> stranded_bytes(const trace::AllocationLog& log,
                                                         std::uint32_t device,
                                                         const Policy& policy);

/** @return lines for people, each indented by two spaces */
[[nodiscard]] std::string to_string(const WhatIf& what_if);
void to_json(nlohmann::json& out, const WhatIf& what_if);

}  // namespace millrace
