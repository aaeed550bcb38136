#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "millrace/pipeline/model/sparse_nn_config.hpp"
#include "millrace/streamer/capture.hpp"
#include "millrace/streamer/shipper.hpp"

namespace millrace {

/** @brief Tables of this rank whose changed rows are streamed. */
struct StreamedBags {
  EmbeddingBags& bags;
  std::string prefix;  ///< of their names in a checkpoint: "table", "weighted_table"
  /** They are bound to parameters that a dense optimizer updates: all rows may change with a step,
   * and are told with `step_done`. On one rank only. */
  bool dense = false;
};

struct StreamingOptions {
  CaptureOptions capture;  ///< tables that are skipped by their names in the schema
  ShippingOptions shipping;
  std::uint64_t epoch = 0;  ///< the same on all ranks; 0: next_epoch
};

/** @brief Where a streamer is. All of it outlives the streamer. */
struct StreamingPlace {
  ModelContext& context;
  Allocator& pinned;   ///< of pinned host memory
  Executor& executor;  ///< of the device: its actors bring rows to the host
  Executor& shipping;  ///< of sinks, whose clock is theirs: that of the system, but in tests
  std::uint32_t rank = 0, ranks = 1;
};

struct StreamingReport {
  std::uint64_t epoch = 0;
  std::vector<CaptureCounts> captured;  ///< of each bags
  std::vector<ShippingReport> sinks;

  /** @brief All that was to be told has been, everywhere. */
  [[nodiscard]] bool complete() const noexcept;
};

/** @brief Of a start now: the time in milliseconds, later than the lineage. */
[[nodiscard]] std::uint64_t next_epoch(const Lineage& lineage);

/** @brief The tables of a model as records number them: those of checkpoints, in their order.
 *  @param dense  those, by that name, that the dense optimizer updates: no state of theirs is told
 */
[[nodiscard]] StreamSchema stream_schema(const SparseNNConfig& config, RowContent content,
                                         const std::set<std::string>& dense = {});

/**
 * @brief Tells sinks which rows of a rank's tables have changed, step by step, while they train.
 *
 * It observes the tables from its construction to `stop`. Rows are gathered behind each update and
 * shipped by actors of their own; training waits for neither sinks nor links (but see WhenFull and
 * QueuePolicy::block), and no error of theirs reaches it.
 *
 * Called by the thread that trains.
 */
class RowStreamer {
 public:
  /**
   * @param lineage  of the tables as they are: from the checkpoint that they were restored from
   * @throws std::invalid_argument if there is no sink, or a table that the schema does not have; as
   *         Capture
   */
  RowStreamer(const StreamingPlace& place, const StreamSchema& schema,
              const std::vector<StreamedBags>& bags, std::vector<std::shared_ptr<Sink>> sinks,
              const Lineage& lineage, const StreamingOptions& options);
  /** @brief `stop`, with no time for what is left. */
  ~RowStreamer();
  RowStreamer(const RowStreamer&) = delete;
  RowStreamer& operator=(const RowStreamer&) = delete;

  [[nodiscard]] std::uint64_t epoch() const noexcept;

  /** @brief A step has been enqueued, main behind all of it: tells tables that are dense. */
  void step_done();

  /**
   * @brief Captures all that is dirty, and waits until every sink has all, for `at_most`. No step
   * is under way, and main is behind all of them.
   * @return whether every sink that was not given up has it
   */
  bool flush(Nanoseconds at_most);

  /** @brief Flushes, tells rows again that a sink does not have any more (of sinks that can list
   *         theirs), and ends: nothing is observed any more. What is left is in the report. */
  void stop(Nanoseconds at_most);

  /** @brief Of the tables as they are: for a checkpoint. */
  [[nodiscard]] Lineage lineage() const;
  [[nodiscard]] StreamingReport report() const;
  /** @brief Of each sink, how it is now: for little, while training goes on. */
  [[nodiscard]] std::vector<ShippingHealth> health() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
