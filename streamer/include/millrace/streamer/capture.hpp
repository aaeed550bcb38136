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
#include "millrace/streamer/schema.hpp"

namespace millrace {

/**
 * @brief How rows get from the tables to host memory.
 *
 *   sync           gathered on the device, copied to pinned memory, and the training thread waits
 *   sync_pageable  the same, to pageable memory
 *   mapped         the gather itself writes to pinned memory, the same each time; an actor copies
 *                  out, and the next step's gather is not enqueued before that
 *   ring           gathered on the device, copied on a stream of its own into one of `slots` pinned
 *                  buffers; the training thread waits for nothing, unless all slots are full
 *   ring_kernel    the same, copied by a kernel of few blocks instead of a copy engine, which
 * learns on the device how much there is: so the host takes no part before the rows are there, and
 * two buffers on the device are enough however far it is ahead
 */
enum class CaptureWay { sync, sync_pageable, mapped, ring, ring_kernel };
inline constexpr std::array kCaptureWays{CaptureWay::sync, CaptureWay::sync_pageable,
                                         CaptureWay::mapped, CaptureWay::ring,
                                         CaptureWay::ring_kernel};
/** @brief "sync", "sync-pageable", "mapped", "ring", "ring-kernel" */
[[nodiscard]] std::string_view to_string(CaptureWay way) noexcept;
/** @throws std::invalid_argument that lists the names there are */
[[nodiscard]] CaptureWay parse_capture_way(std::string_view name);

/** @brief What a step does whose rows find no slot. */
enum class WhenFull {
  block,       ///< waits, for `patience` at most; then as `mark_dirty`
  mark_dirty,  ///< its rows are told with a later step
};
/** @brief "block", "mark-dirty" */
[[nodiscard]] std::string_view to_string(WhenFull policy) noexcept;
/** @throws std::invalid_argument that lists the names there are */
[[nodiscard]] WhenFull parse_when_full(std::string_view name);

/** @brief Where the gather is enqueued. */
enum class GatherOn {
  update_stream,  ///< behind the update: one launch, and nothing else waits
  own_stream,     ///< beside the next forward; what changes or moves rows next waits for it
};

struct CaptureOptions {
  CaptureWay way = CaptureWay::ring;
  RowContent content = RowContent::weights;
  /** Of the rings and `sync`, at most; `mapped` has one. Two are there from the beginning, others
   * from when the host first is so many steps ahead of the device that they are needed: a run-ahead
   * of n steps takes n + 2. Making one pins memory: milliseconds of the training thread, once. */
  std::size_t slots = 8;
  /** Bytes of a slot, on the device and in pinned memory each (of `ring_kernel` pinned, and two
   * buffers on the device for all): those of a step's largest change,
   * and no more are taken than all tables need. Rows that do not fit are told with a later step. */
  std::size_t slot_bytes = std::size_t{64} << 20;
  WhenFull when_full = WhenFull::block;
  Nanoseconds patience = std::chrono::milliseconds{20};
  GatherOn gather_on = GatherOn::update_stream;
  std::vector<std::string> skipped_tables;  ///< never told; their rows are counted
};

/** @brief What became of the rows of a source, and what it took. */
struct CaptureCounts {
  std::uint64_t steps = 0;              ///< updates that were seen, those without rows too
  std::uint64_t rows = 0;               ///< handed on and taken
  std::uint64_t changed_bytes = 0;      ///< of these: their numbers
  std::uint64_t link_bytes = 0;         ///< that were copied, or written, to host memory
  std::uint64_t copied_bytes = 0;       ///< of these: by copies that were timed, headers left out
  Nanoseconds copying{0};               ///< they took, until the host saw their end
  std::uint64_t captures = 0;           ///< gathers
  std::uint64_t dirty_captures = 0;     ///< of these: of rows that had been left for later
  std::uint64_t overflowed_rows = 0;    ///< did not fit into a slot: told later
  std::uint64_t dropped_steps = 0;      ///< found no slot: told later
  std::uint64_t dropped_rows = 0;       ///< their rows, at most
  std::uint64_t returned_rows = 0;      ///< were not taken: told later
  std::uint64_t skipped_rows = 0;       ///< of tables that are skipped: never told
  std::uint64_t failures = 0;           ///< calls of the driver that failed; rows are told later
  std::uint64_t everything_marked = 0;  ///< failures after which all rows are told again
  Nanoseconds waited{0};                ///< of the training thread: for slots, copies, or a buffer
  std::uint64_t waits = 0;
};

/** @brief A row by its table's number in the schema and its number in the whole table. */
struct TableRow {
  std::uint32_t table = 0;
  std::int64_t row = 0;
};

/**
 * @brief Brings the rows that each step changes to host memory, and hands them on.
 *
 * One for each EmbeddingBags, whose observer it is. What can not be told with its own step (no
 * slot, no room in one, a receiver that does not take it, a driver call that fails) is marked in a
 * bitmap on the device, one bit a row, and told with later steps: their numbers are those of then.
 * Nothing here makes training fail.
 *
 * `mark*`, `counts` and `dirty` may be called by any thread; the others, as all use of the tables,
 * by one at a time.
 */
class Capture final : public RowUpdateObserver {
 public:
  /** @brief What is captured, and what for. All of it outlives the capture. */
  struct Source {
    EmbeddingBags& bags;
    std::size_t number = 0;             ///< `CapturedRows::source`
    std::vector<std::uint32_t> tables;  ///< of each of its tables the number in the schema
  };
  struct Setting {
    ModelContext& context;
    Allocator& pinned;  ///< of pinned host memory
    Executor& executor;
    CaptureReceiver& receiver;
  };

  /**
   * @brief Makes its memory, and becomes the observer of the bags.
   * @throws std::invalid_argument for no slots, or slots too small for one row of each table;
   *         out_of_memory, DeviceError
   */
  Capture(const Source& source, const Setting& setting, const CaptureOptions& options);
  /** @brief Hands on what is under way, and waits for it. What is dirty stays untold. */
  ~Capture() override;
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  void rows_updated(const RowUpdate& update) override;
  void rows_will_move(StreamRef stream) override;

  /** @brief These are told with a later step, changed or not: from the next `rows_updated`,
   *         `tell_dirty` or `flush` on. Rows that are not this source's are left out; many
   *         (a quarter of all that there are) become all.
   *  @return the number of the call, from 1: `CapturedRows::marks` of what is captured behind it;
   *          0: none of these rows are here */
  std::uint64_t mark_all();
  std::uint64_t mark(std::span<const TableRow> rows);

  /**
   * @brief Tells a step without an update, and as many dirty rows as fit: of tables that are bound.
   * @param stream  ordered behind all that changed the rows, and before all that will
   */
  void tell_dirty(std::uint64_t step, StreamRef stream);

  /**
   * @brief Tells all that is dirty, and waits until it was taken: before a checkpoint, at the end.
   * @param stream    as of `tell_dirty`
   * @param patience  of the executor's clock; Nanoseconds::max(): without an end
   * @return false: rows are left
   */
  [[nodiscard]] bool flush(StreamRef stream, Nanoseconds patience);

  /** @brief Nothing more is captured: rows that change are told no more. Hands on what is under
   * way, and waits for it. */
  void stop();

  /** @brief Whether rows may be left to tell, as far as the host knows. */
  [[nodiscard]] bool dirty() const;
  [[nodiscard]] CaptureCounts counts() const;

  /** @brief As records say it: state is 0 where none is told. In the order of the tables. */
  [[nodiscard]] std::vector<StreamedTable> tables() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
