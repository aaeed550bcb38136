#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "millrace/pipeline/data/copy_strategy.hpp"

namespace millrace {

/** @brief Where fused_sparse_dist enqueues the lookup of a batch, relative to its step. */
enum class LookupPosition {
  after_optimizer,   ///< at the start of the batch's step, after the optimizer of the previous step
  before_optimizer,  ///< in the previous step, between its table update and its optimizer
  after_data_dist,   ///< in the batch's step, after the start of the next exchange and copy
};
inline constexpr std::array kLookupPositions{LookupPosition::after_optimizer,
                                             LookupPosition::before_optimizer,
                                             LookupPosition::after_data_dist};
/** @brief "after-optimizer", "before-optimizer", "after-data-dist" */
[[nodiscard]] std::string_view to_string(LookupPosition position) noexcept;

/** @brief The stream on which fused_sparse_dist looks up and updates the tables. */
enum class LookupStream {
  data_dist,  ///< no additional stream or pool of memory; exchanges wait for lookups
  own,        ///< the next exchange starts at once; the pooled rows are memory of a third stream
  main,       ///< no overlap; for comparison
};
inline constexpr std::array kLookupStreams{LookupStream::data_dist, LookupStream::own,
                                           LookupStream::main};
/** @brief "data-dist", "own", "main" */
[[nodiscard]] std::string_view to_string(LookupStream stream) noexcept;

/** @brief Options of fused_sparse_dist. */
struct LookupOptions {
  LookupPosition position = LookupPosition::after_optimizer;
  LookupStream stream = LookupStream::data_dist;
  /// Whether a lookup waits for the dense optimizer of the previous step, and that optimizer for
  /// the table update. Needed if lookups read dense parameters (for instance position weights). The
  /// lookup then does not overlap with the optimizer.
  bool order_after_dense = false;
};

/** @brief Options of semi_sync. */
struct StaleOptions {
  std::uint64_t start_batch = 900;  ///< number of initial steps without staleness
  /// From step `start_batch` on, the optimizer also uses the dense gradients of the previous step.
  /// Step `start_batch` itself then updates no dense parameter, and the gradients of the last step
  /// are not used.
  bool stash_gradients = false;
};

/**
 * @brief Memory to free as soon as nothing reads it any more. The results do not change.
 *
 * docs/pipelines.md shows what each option saves.
 */
struct MemorySavers {
  bool batch = false;  ///< free a batch after forward is enqueued, not at the end of the step
  bool exchanged_inputs = false;  ///< free the send buffers once the data has been received
  bool features = false;  ///< free a batch's sparse features once their exchange was received
};

/** @brief Options of every pipeline. `lookup` and `stale` apply to one kind only. */
struct PipelineOptions {
  CopyMethod copy = CopyMethod::side_stream;
  Waits waits = Waits::coarse;
  /// Whether to train the batches in flight when a source ends; otherwise they wait for the next
  /// source.
  bool execute_all_batches = true;
  /// Batches that are copied to the device ahead of those that the pipeline needs there. Each such
  /// batch stays on the device for `copies_ahead` more steps. The results do not change. Without
  /// `execute_all_batches`, as many more batches of a source wait for the next source.
  std::size_t copies_ahead = 0;
  LookupOptions lookup;
  StaleOptions stale;
  MemorySavers savers;
};

}  // namespace millrace
