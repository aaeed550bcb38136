#pragma once

#include <optional>

#include "millrace/observe/allocation_trace.hpp"
#include "page/page_data.hpp"

namespace millrace::cli {

/** @brief Why a block could use the memory that `before` last had. */
[[nodiscard]] PageReuse reuse_of(const OrderingHistory& ordering, const TracedBlock& block,
                                 const TracedBlock& before);

/** @brief A wait that ordered a stream after the work of a block. */
struct ReuseEdge {
  Point after;  ///< the work
  TracePosition freed = 0;
  TracePosition waited = 0;  ///< the first event at which the order is known
  StreamId stream;           ///< the stream that waited
};

/** @brief The last wait that a block needed in order to use the memory of `before`; std::nullopt if
 *         no wait was needed, or if none is known. */
[[nodiscard]] std::optional<ReuseEdge> edge_of(const OrderingHistory& ordering,
                                               const TracedBlock& block, const TracedBlock& before);

}  // namespace millrace::cli
