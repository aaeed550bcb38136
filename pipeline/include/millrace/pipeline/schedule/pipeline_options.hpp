#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "millrace/pipeline/data/copy_strategy.hpp"

namespace millrace {

/** @brief Where in a step fused_sparse_dist enqueues the lookup of the batch to be trained next. */
enum class LookupPosition {
  after_optimizer,   ///< of the step before: first thing in a step
  before_optimizer,  ///< of the step before, right behind the update of the tables
  after_data_dist,   ///< behind the start of the next exchange and the copy after that
};
inline constexpr std::array kLookupPositions{LookupPosition::after_optimizer,
                                             LookupPosition::before_optimizer,
                                             LookupPosition::after_data_dist};
/** @brief "after-optimizer", "before-optimizer", "after-data-dist" */
[[nodiscard]] std::string_view to_string(LookupPosition position) noexcept;
/** @throws std::invalid_argument that lists the names there are */
[[nodiscard]] LookupPosition parse_lookup_position(std::string_view name);

/** @brief The stream on which fused_sparse_dist looks up, and updates tables. */
enum class LookupStream {
  data_dist,  ///< no further stream, and no further pool of memory; exchanges queue up behind it
  own,        ///< the next exchange starts at once; pooled rows are another stream's memory
  main,       ///< nothing overlaps: for comparison
};
inline constexpr std::array kLookupStreams{LookupStream::data_dist, LookupStream::own,
                                           LookupStream::main};
/** @brief "data-dist", "own", "main" */
[[nodiscard]] std::string_view to_string(LookupStream stream) noexcept;
/** @throws std::invalid_argument that lists the names there are */
[[nodiscard]] LookupStream parse_lookup_stream(std::string_view name);

/** @brief Of fused_sparse_dist. */
struct LookupOptions {
  LookupPosition position = LookupPosition::after_optimizer;
  LookupStream stream = LookupStream::data_dist;
  /** A lookup waits for the dense optimizer of the step before, and that for the update of the
   * tables: for a model whose lookups read dense parameters, and at the price of that overlap. */
  bool order_after_dense = false;
};

/** @brief Of semi_sync. */
struct StaleOptions {
  std::uint64_t start_batch = 900;  ///< steps of the run that are the plain loop's
  /** From then on the optimizer follows the dense gradients of the step before, too; the step at
   * `start_batch` has none and updates no dense parameter, and those of the last step are left. */
  bool stash_gradients = false;
};

/** @brief What is freed as soon as nothing reads it any more. No bit changes; see docs/pipelines.md
 * for what each is worth. */
struct MemorySavers {
  bool batch = false;             ///< when forward is enqueued, not at the end of the step
  bool exchanged_inputs = false;  ///< what an exchange sends, when it is received
  bool features = false;          ///< a batch's sparse features, when their exchange is received
};

struct PipelineOptions {
  CopyMethod copy = CopyMethod::side_stream;
  Waits waits = Waits::coarse;
  /** At a source's end train what is in flight. If not, that stays, for the next source. */
  bool execute_all_batches = true;
  LookupOptions lookup;
  StaleOptions stale;
  MemorySavers savers;
};

}  // namespace millrace
