#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "millrace/observe/driver_model.hpp"
#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/** @brief What each allocator would have reserved for the same requests: peaks in bytes. */
struct WhatIfReserved {
  std::optional<DriverModel> driver;    ///< the driver's pool and cudaMalloc; nothing: too little
                                        ///< memory
  std::optional<std::size_t> torch;     ///< PyTorch's decisions
  std::optional<std::size_t> millrace;  ///< Policy::millrace(), which may make a stream wait
};

/** @brief Free bytes of one stream and site that no other stream could have had. */
struct WhatIfStranded {
  std::string stream;     ///< for which the memory was allocated
  std::string site;       ///< where; "" if unknown
  std::string waits_for;  ///< the stream whose work may still have used it
  std::size_t bytes = 0;
};

/** @brief Allocations of one stream that could belong to another. */
struct WhatIfMove {
  std::string stream, to;
  std::string site;                  ///< "" stands for all allocations of the stream
  std::vector<std::uint64_t> sizes;  ///< the different requests, the largest first
  std::size_t blocks = 0;
  WhatIfReserved reserved;
  std::size_t waits = 0;  ///< how often `stream` then waits for all that `to` has enqueued
};

/** @brief What a program's requests cost on each allocator, and what would change that. */
struct WhatIf {
  std::optional<std::size_t> recorded;  ///< peak of what the recorded allocators reserved
  std::size_t load = 0;                 ///< most requested bytes at once: nothing needs less
  WhatIfReserved reserved;
  /// Of torch's decisions, where free memory stays with its stream; by bytes.
  std::vector<WhatIfStranded> stranded;
  /// By what torch's decisions would have reserved; only those that save something on an allocator.
  std::vector<WhatIfMove> moves;
};

/**
 * @brief Replays one device of a trace of Millrace's on each allocator, as it was and with
 *        allocations moved to the stream that holds most.
 *
 * A moved allocation is made for that stream, and its own stream waits for it (the copy strategy
 * `in-place`). All figures come from replays. About 20 replays are made.
 */
[[nodiscard]] WhatIf what_if(const trace::AllocationLog& log, std::uint32_t device);

/** @brief Some lines for people, each indented by two spaces. */
[[nodiscard]] std::string to_string(const WhatIf& what_if);
void to_json(nlohmann::json& out, const WhatIf& what_if);

}  // namespace millrace
