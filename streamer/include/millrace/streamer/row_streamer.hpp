#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "millrace/pipeline/model/sparse_nn_config.hpp"
#include "millrace/streamer/row_capture.hpp"
#include "millrace/streamer/shipper.hpp"

/// @file
/// The streamer: captures the rows that training changes and writes them to sinks.
///
///     update -> RowCapture -> step and its commit -> Shipper (one for each sink) -> Sink
///
/// Terms:
///   - commit: the record after the rows of a step; it counts the missing rows.
///   - missing row: a row that changed, or belongs to a snapshot, and is not delivered yet.
///   - epoch: one start of a trainer; later starts have greater epochs.
///   - lineage: the steps that a table consists of. A checkpoint keeps it (lineage.hpp).
///   - dense table: a table that the dense optimizer updates. All its rows change with every step.
///   - actor: a host thread of an Executor.

namespace millrace {

/** @brief Tables of this rank whose changed rows are streamed. */
struct StreamedBags {
  EmbeddingBags& bags;
  std::string prefix;  ///< prefix of the tables' names in a checkpoint: "table", "weighted_table"
  /** The tables are dense tables: `step_done` delivers all their rows. On one rank only. */
  bool dense = false;
};

/** @brief How rows are captured and shipped. */
struct StreamingOptions {
  CaptureOptions capture;  ///< `skipped_tables` are names of the schema
  ShippingOptions shipping;
  std::uint64_t epoch = 0;  ///< the same on all ranks; 0: `next_epoch` of the lineage
};

/** @brief The objects that a streamer uses. All members outlive the streamer. */
struct StreamingEnvironment {
  ModelContext& context;
  Allocator& pinned;   ///< allocates pinned host memory
  Executor& executor;  ///< executor of the device: runs the copiers
  Executor& shipping;  ///< runs the shippers; its clock is the system's, except in tests
  std::uint32_t rank = 0, ranks = 1;
};

/** @brief What a streamer did. Counts start at its construction. */
struct StreamingReport {
  std::uint64_t epoch = 0;
  std::vector<CaptureCounts> captured;  ///< one for each StreamedBags
  std::vector<ShippingReport> sinks;    ///< one for each sink

  /** @return true if every sink has every row */
  [[nodiscard]] bool complete() const noexcept;
};

/** @return an epoch for a trainer that starts now: the time in milliseconds since 1970, and greater
 *          than all epochs of the lineage */
[[nodiscard]] std::uint64_t next_epoch(const Lineage& lineage);

/**
 * @brief The tables of a model as records number them: those of a checkpoint, in its order.
 * @param config   the model
 * @param content  the part of each row that is delivered
 * @param dense    names of the dense tables, as in the schema; their optimizer state is not
 *                 delivered
 */
[[nodiscard]] StreamSchema stream_schema(const SparseNNConfig& config, RowContent content,
                                         const std::set<std::string>& dense = {});

/**
 * @brief Streams the changed rows of a rank's tables to sinks, step by step, during training.
 *
 * It observes the tables from construction to `stop`. Rows are gathered after each update, and one
 * actor for each sink ships them. Training waits neither for sinks nor for copies (exceptions:
 * WhenFull::block and QueuePolicy::block), and no failure throws into training.
 *
 * Thread safety: `report` and `health` may be called by any thread; all other functions by the
 * thread that trains.
 */
class RowStreamer {
 public:
  /**
   * @brief Starts capture and shipping.
   * @param environment  outlives the streamer
   * @param schema       numbers the tables; `stream_schema`
   * @param bags         the tables; the first element must not be dense, because it counts the
   *     steps
   * @param sinks        at least one
   * @param lineage      lineage of the current tables: that of the checkpoint from which they were
   *                     loaded, or an empty one
   * @throws std::invalid_argument if `sinks` or `bags` is empty, the first element of `bags` is
   * dense, the schema lacks a table, or a skipped table does not exist; also where RowCapture and
   * Shipper throw it
   */
  RowStreamer(const StreamingEnvironment& environment, const StreamSchema& schema,
              const std::vector<StreamedBags>& bags, std::vector<std::shared_ptr<Sink>> sinks,
              const Lineage& lineage, const StreamingOptions& options);
  /** @brief Like `stop` with no time for undelivered rows. */
  ~RowStreamer();
  RowStreamer(const RowStreamer&) = delete;
  RowStreamer& operator=(const RowStreamer&) = delete;

  [[nodiscard]] std::uint64_t epoch() const noexcept;

  /** @brief Call after each step is enqueued, with main ordered after all of it. Delivers dense
   *         tables, and gives commits their wall-clock time. */
  void step_done();

  /**
   * @brief Captures all dirty rows and waits until every sink has every row.
   *
   * No step may be in progress, and main must be ordered after all steps.
   * @param at_most  longest wait, on the clock of the shipping executor
   * @return true if every sink that was not given up has every row
   */
  bool flush(Nanoseconds at_most);

  /**
   * @brief Flushes, resends the rows that a sink has lost, and stops observing. The report counts
   *        the rows that were not delivered.
   *
   * Only a sink that can list its rows is checked for lost rows.
   * @param at_most  longest wait, on the clock of the shipping executor
   */
  void stop(Nanoseconds at_most);

  /**
   * @brief The tracker of some tables, for consumers that read changed rows at their own pace.
   * @param bags  index of the StreamedBags
   * @throws std::invalid_argument if the tables are dense (no rows are tracked), or do not exist
   */
  [[nodiscard]] ChangeTracker& tracker(std::size_t bags);

  /** @return the lineage of the current tables: store it in the checkpoint */
  [[nodiscard]] Lineage lineage() const;
  [[nodiscard]] StreamingReport report() const;
  /** @return the current state of each sink; cheap enough to poll each step */
  [[nodiscard]] std::vector<ShippingHealth> health() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
