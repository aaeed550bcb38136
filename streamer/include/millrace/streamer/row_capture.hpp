#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/device/executor.hpp"
#include "millrace/pipeline/model/embedding_bags.hpp"
#include "millrace/streamer/captured_rows.hpp"
#include "millrace/streamer/change_tracker.hpp"
#include "millrace/streamer/schema.hpp"

/// @file
/// Row capture: gathers the rows that each training step changes and delivers them in host memory.
///
/// Terms:
///   - source: the tables of one EmbeddingBags on one rank.
///   - gather: one kernel that copies the changed rows of a step into one contiguous buffer.
///   - slot: the buffer that one gather fills, with the pinned memory in which its rows reach the
///     host.
///   - copier: the actor (host thread) of a capture that delivers filled slots to the receiver.
///   - dirty row: a row that must still be delivered, because its own step could not deliver it or
///     because `mark_dirty` requested it. A bitmap on the device has one bit for each row.
///   - missing rows: the number of dirty rows after a delivered step.
///
/// Row capture has nothing to do with the capture of CUDA graphs.

namespace millrace {

/**
 * @brief How rows get from the tables to host memory.
 *
 *   sync           The gather writes to device memory. The training thread copies the rows to
 *                  pinned memory and waits for the copy.
 *   sync_pageable  Like `sync`, but to pageable memory.
 *   mapped         The gather writes directly to one pinned buffer. The copier copies the rows out
 *                  of it; the next gather is not enqueued before that.
 *   ring           The gather writes to device memory. The copier copies the rows on its own stream
 *                  to one of `slots` pinned buffers. The training thread waits only when all slots
 *                  are full.
 *   ring_kernel    Like `ring`, but a small kernel copies instead of the copy engine. The kernel
 *                  reads the row count on the device, so the host is not involved until the rows
 *                  have arrived, and two device buffers suffice for any run-ahead.
 */
enum class CaptureMode { sync, sync_pageable, mapped, ring, ring_kernel };
inline constexpr std::array kCaptureModes{CaptureMode::sync, CaptureMode::sync_pageable,
                                          CaptureMode::mapped, CaptureMode::ring,
                                          CaptureMode::ring_kernel};
/** @return "sync", "sync-pageable", "mapped", "ring" or "ring-kernel" */
[[nodiscard]] std::string_view to_string(CaptureMode mode) noexcept;
/** @throws std::invalid_argument for an unknown name; the message lists the known ones */
[[nodiscard]] CaptureMode parse_capture_mode(std::string_view name);

/** @brief What happens to the rows of a step when no slot is free. */
enum class WhenFull {
  block,       ///< The training thread waits up to `patience`; after that, like `mark_dirty`.
  mark_dirty,  ///< The rows become dirty and are delivered with a later step.
};
inline constexpr std::array kWhenFull{WhenFull::block, WhenFull::mark_dirty};
/** @return "block" or "mark-dirty" */
[[nodiscard]] std::string_view to_string(WhenFull policy) noexcept;

/** @brief The stream on which gathers are enqueued. */
enum class GatherOn {
  update_stream,  ///< The stream of the update, after it: one launch, and no other stream waits.
  /**
   * A stream of the capture. The next operation that changes or moves rows waits for the gather.
   */
  own_stream,
};
inline constexpr std::array kGatherOn{GatherOn::update_stream, GatherOn::own_stream};
/** @return "update" or "own" */
[[nodiscard]] std::string_view to_string(GatherOn stream) noexcept;

/** @brief How a capture gathers rows, and how much memory it uses. */
struct CaptureOptions {
  CaptureMode mode = CaptureMode::ring;
  RowContent content = RowContent::weights;
  /** Maximum number of slots for `sync`, `ring` and `ring_kernel` (`mapped` uses one). Two are
   * allocated at construction, the others on demand: a host that is n steps ahead of the device
   * needs n + 2. Each allocation of pinned memory blocks the training thread for milliseconds. */
  std::size_t slots = 8;
  /** Bytes of a slot, once on the device and once in pinned memory (`ring_kernel`: once in pinned
   * memory, and two device buffers for all slots). Choose the size of the largest change of a step.
   * Rows that do not fit become dirty. A slot is never larger than all tables. */
  std::size_t slot_bytes = std::size_t{64} << 20;
  WhenFull when_full = WhenFull::block;
  /** Longest wait for a free slot, on the executor's clock. */
  Nanoseconds patience = std::chrono::milliseconds{20};
  GatherOn gather_on = GatherOn::update_stream;
  /** Tables whose rows are never delivered, by their names in the EmbeddingBags. Their changed rows
   * are counted. */
  std::vector<std::string> skipped_tables;
};

/** @brief Statistics of one capture since its construction. */
struct CaptureCounts {
  std::uint64_t steps = 0;              ///< updates observed, including those that changed no row
  std::uint64_t rows = 0;               ///< rows that the receiver accepted
  std::uint64_t changed_bytes = 0;      ///< bytes of weights and optimizer state of those rows
  std::uint64_t link_bytes = 0;         ///< bytes copied or written to host memory
  std::uint64_t copied_bytes = 0;       ///< part of `link_bytes` that was copied by timed copies
  Nanoseconds copying{0};               ///< duration of those copies, as the host observed it
  std::uint64_t captures = 0;           ///< gathers
  std::uint64_t dirty_captures = 0;     ///< gathers of dirty rows; part of `captures`
  std::uint64_t overflowed_rows = 0;    ///< rows that did not fit into a slot
  std::uint64_t dropped_steps = 0;      ///< steps for which no slot was free
  std::uint64_t dropped_rows = 0;       ///< upper bound on the rows of those steps
  std::uint64_t returned_rows = 0;      ///< rows that the receiver refused or a failed copy lost
  std::uint64_t skipped_rows = 0;       ///< changed rows of skipped tables; never delivered
  std::uint64_t failures = 0;           ///< driver calls that failed; the rows become dirty
  std::uint64_t everything_marked = 0;  ///< failures after which all rows became dirty
  Nanoseconds waited{0};                ///< time the training thread waited for slots or copies
  std::uint64_t waits = 0;              ///< number of those waits
};

/** @brief A row: the number of its table in the schema, and its number in the whole table. */
struct TableRow {
  std::uint32_t table = 0;
  std::int64_t row = 0;
};

/** @brief The objects that a capture uses. All members outlive the capture. */
struct CaptureEnvironment {
  ModelContext& context;
  Allocator& pinned;          ///< allocates pinned host memory
  Executor& executor;         ///< runs the copier; its clock measures waits
  CaptureReceiver& receiver;  ///< receives the rows, on the copier's thread
};

/**
 * @brief Observes one EmbeddingBags and delivers the rows that each step changes.
 *
 * Rows that cannot be delivered with their own step (no free slot, a slot that is too small, a
 * receiver that refuses, a driver call that fails) become dirty and are delivered with later steps,
 * with their values of that time. No row is lost, and no failure throws into training.
 *
 * Thread safety: any thread may call `mark_dirty`, `mark_all_dirty`, `dirty` and `counts`. All
 * other functions may be called by one thread at a time, the one that uses the tables.
 *
 * Ordering: the receiver gets the steps of one capture in ascending order. The values of a row that
 * is delivered with step s are those after the update of s.
 */
class RowCapture final : public RowUpdateObserver {
 public:
  /** @brief The tables to capture. */
  struct Source {
    EmbeddingBags& bags;                ///< outlives the capture
    std::size_t number = 0;             ///< value of `CapturedRows::source`
    std::vector<std::uint32_t> tables;  ///< for each table of `bags` its number in the schema
  };

  /**
   * @brief Allocates the first slots and the bitmap, and registers as an observer of the bags.
   * @throws std::invalid_argument if `slots` is 0, a slot cannot hold one row of each table,
   *         `tables` has the wrong size, or a skipped table does not exist
   * @throws out_of_memory, DeviceError
   */
  RowCapture(const Source& source, const CaptureEnvironment& environment,
             const CaptureOptions& options);
  /** @brief Like `stop`. Dirty rows stay undelivered. */
  ~RowCapture() override;
  RowCapture(const RowCapture&) = delete;
  RowCapture& operator=(const RowCapture&) = delete;

  /** @brief Called by the bags after an update is enqueued. @see RowUpdateObserver */
  void rows_updated(const RowUpdate& update) override;
  /** @brief Called by the bags before rows change or move. @see RowUpdateObserver */
  void rows_will_move(StreamRef stream) override;

  /**
   * @brief Requests delivery of rows that did not change.
   *
   * They become dirty at the next `rows_updated`, `capture_dirty` or `flush`, and are delivered
   * from then on. Requests for more than a quarter of all rows become a request for all rows.
   * @param rows  rows of other sources are ignored
   * @return the number of this request, from 1 (see CapturedRows::requests); 0 if no row belongs
   *         to this source
   */
  std::uint64_t mark_dirty(std::span<const TableRow> rows);
  /** @brief Like `mark_dirty` for all rows of all tables: a snapshot.
   *  @return the number of this request; 0 if the tables have no rows */
  std::uint64_t mark_all_dirty();

  /**
   * @brief Delivers a step without an update, with as many dirty rows as fit: for tables that are
   *        not updated through the EmbeddingBags.
   * @param step    number of the step; not less than that of earlier steps
   * @param stream  ordered after all changes of the rows so far, and before all later ones
   */
  void capture_dirty(std::uint64_t step, StreamRef stream);

  /**
   * @brief Delivers all dirty rows and waits until the receiver has them. Call it before a
   *        checkpoint and at the end.
   * @param stream    as in `capture_dirty`
   * @param patience  longest wait on the executor's clock; Nanoseconds::max(): no limit
   * @return false if rows are still dirty
   */
  [[nodiscard]] bool flush(StreamRef stream, Nanoseconds patience);

  /** @brief Stops observing, delivers the steps that are already captured, and ends the copier. */
  void stop();

  /**
   * @brief The tracker of the same tables, for consumers that read changed rows at their own pace.
   *
   * It observes the tables through this capture, until `stop`. `CaptureOptions::skipped_tables` and
   * the default chunk size apply. Use it from the thread that uses the tables.
   */
  [[nodiscard]] ChangeTracker& tracker() noexcept;

  /** @brief False only if no row is dirty. True if rows may be dirty: the host learns late that the
   *         bitmap is empty. */
  [[nodiscard]] bool dirty() const;
  [[nodiscard]] CaptureCounts counts() const;

  /** @brief The tables in the order of the EmbeddingBags, as a schema describes them. `state` is 0
   *         where no optimizer state is delivered. */
  [[nodiscard]] std::vector<StreamedTable> tables() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
