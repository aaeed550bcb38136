#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/pipeline/model/embedding_bags.hpp"
#include "millrace/streamer/captured_rows.hpp"
#include "millrace/streamer/schema.hpp"

/// @file
/// Change tracking: which rows of an EmbeddingBags each consumer has not received yet.
///
/// Terms:
///   - consumer: a name with a cursor and a bitmap. Consumers read changed rows at their own pace.
///   - cursor: the step up to which a consumer has read.
///   - bitmap: device memory with one bit for each row, or for a group of 2, 4, 8, ... adjacent
///     rows. An update sets bits without the host.
///   - range: the steps that one read covers, from the cursor up to the current step or the cut.
///   - chunk: rows that a read brings to the host at once.
///
/// RowCapture delivers changed rows step by step and keeps what it could not deliver in a tracker;
/// `RowCapture::tracker` gives other consumers access to it.

namespace millrace {

namespace capture {
class DirtyRows;
}

/** @brief What `add_consumer` does if a bitmap exceeds the memory cap. */
enum class OverCap {
  /** One bit is for 2, 4, 8, ... adjacent rows, as long as these fit into a chunk. Reads then also
   * return rows that did not change. */
  coarsen,
  refuse,  ///< throws
};

/** @brief How much memory a tracker uses, and which tables it reads. */
struct TrackerOptions {
  /** Bytes of device memory for the bitmaps of all consumers; 0: no limit. Buffers for reads
   * (`chunk_bytes` for each content) are not counted. */
  std::size_t memory_cap = 0;
  OverCap over_cap = OverCap::coarsen;
  /** Maximum bytes of a chunk, once on the device and once in pinned memory. */
  std::size_t chunk_bytes = std::size_t{8} << 20;
  /** Tables whose rows are never read, by their names in the EmbeddingBags. Their changed rows are
   * counted. */
  std::vector<std::string> skipped_tables;
  /** Registers the tracker as an observer of the bags. If false, the owner passes each update to
   * `rows_updated`. */
  bool registers = true;
};

/** @brief Statistics of one tracker since its construction. */
struct TrackerCounts {
  std::uint64_t steps = 0;    ///< updates observed
  std::uint64_t rows = 0;     ///< rows read, by all consumers together
  std::uint64_t skipped = 0;  ///< rows of skipped tables that a read left out
  /** Driver calls that failed while rows were marked. All rows then count as changed. */
  std::uint64_t failures = 0;
};

/** @brief The objects that a tracker uses. All members outlive the tracker. */
struct TrackerEnvironment {
  ModelContext& context;
  Allocator& pinned;  ///< allocates pinned host memory
};

/**
 * @brief Remembers which rows of an EmbeddingBags changed, for consumers that read at their own
 *        pace.
 *
 * A read compacts all steps since the cursor: it gives each changed row once, ids ascending, with
 * its current value. Memory does not depend on how many steps a consumer lags behind.
 *
 * Thread safety: none. All functions are called by the thread that uses the tables. No failure of
 * the driver throws into training.
 */
class ChangeTracker final : public RowUpdateObserver {
 public:
  /** @brief The tables whose rows are tracked. */
  struct Source {
    EmbeddingBags& bags;                ///< outlives the tracker
    std::vector<std::uint32_t> tables;  ///< for each table of `bags` its number in the schema
  };

  /**
   * @brief Observes the bags from now on (see TrackerOptions::registers).
   * @throws std::invalid_argument if `tables` has the wrong size, a skipped table does not exist,
   *         or a chunk cannot hold one row
   */
  ChangeTracker(const Source& source, const TrackerEnvironment& environment,
                const TrackerOptions& options = {});
  ~ChangeTracker() override;
  ChangeTracker(const ChangeTracker&) = delete;
  ChangeTracker& operator=(const ChangeTracker&) = delete;

  /** @brief Sets the bits of the updated rows for each consumer, on the stream of the update. */
  void rows_updated(const RowUpdate& update) override;

  /**
   * @brief Adds a consumer. Its cursor is the current step.
   * @throws std::invalid_argument if the name exists, or the memory cap leaves no room
   * @throws out_of_memory
   */
  void add_consumer(const std::string& name);
  /** @throws std::invalid_argument for an unknown name */
  void remove_consumer(std::string_view name);
  /** @return the names, in the order in which they were added */
  [[nodiscard]] std::vector<std::string> consumers() const;
  /** @return the step up to which the consumer has read
   *  @throws std::invalid_argument for an unknown name */
  [[nodiscard]] std::uint64_t cursor(std::string_view consumer) const;
  /** @return the number of rows for each bit of the consumer
   *  @throws std::invalid_argument for an unknown name */
  [[nodiscard]] std::size_t rows_per_bit(std::string_view consumer) const;
  /**
   * @brief Ends the next range at the current step: rows that change from now on belong to the
   * range after it.
   *
   * The next `read` gives the rows that changed between the cursor and the cut, and no others, with
   * their values at the time of the read. A row that changes again is in both ranges. Until the
   * range is read completely the consumer has a second bitmap.
   * @return the current step
   * @throws std::invalid_argument if the consumer is unknown, has a cut that is not read yet, or
   * the memory cap leaves no room for a second bitmap
   * @throws out_of_memory, DeviceError: nothing has changed
   */
  std::uint64_t cut(std::string_view consumer);
  /** @return bytes of device memory of all consumers' bitmaps, which the memory cap limits */
  [[nodiscard]] std::size_t memory() const noexcept;
  [[nodiscard]] TrackerCounts counts() const noexcept { return counts_; }

  /** @brief The steps that a read covered: `after` < step <= `to`. */
  struct Range {
    std::uint64_t after = 0, to = 0;
    std::uint64_t rows = 0;  ///< rows read
    bool complete = true;    ///< false: rows were not delivered, and the cursor did not move
  };
  /** @brief Takes one chunk, in pinned memory that is valid until it returns. @return false if the
   *         rows were not delivered: they count as changed again, and the read ends. The only
   *         function of this consumer that it may call is `put_back`. */
  using Visit = std::function<bool(const CapturedRows&)>;

  /**
   * @brief Reads the rows of the next range in chunks, and waits for each chunk. If all were
   *        delivered, the cursor moves to the end of the range.
   * @param stream  ordered after all changes of the rows so far, and before all later ones
   * @throws std::invalid_argument if the consumer is unknown
   * @throws out_of_memory, DeviceError: the rows that were not visited are read the next time
   */
  Range read(std::string_view consumer, RowContent content, StreamRef stream, const Visit& visit);

  /**
   * @brief Reports that rows of an earlier read could not be delivered. They count as changed
   *        again, and the cursor is set back to `CapturedRows::after`.
   *
   * The next read gives these rows. If a visitor puts rows back, the next read after the current
   * one gives them. Waits for the stream. If the rows cannot be marked, all rows count as changed.
   * @param rows    as they were visited, or a copy with some of their ids
   * @param stream  as in `read`
   * @throws std::invalid_argument if the consumer is unknown
   */
  void put_back(std::string_view consumer, const CapturedRows& rows, StreamRef stream);

 private:
  friend class RowCapture;  ///< keeps the rows that it could not deliver in `undelivered`
  class ChangedRows;
  struct Consumer;
  class Chunk;

  [[nodiscard]] capture::DirtyRows& undelivered();
  [[nodiscard]] Consumer& find(std::string_view name) const;
  [[nodiscard]] std::size_t room_under_cap() const noexcept;
  [[nodiscard]] std::uint32_t shift_under_cap() const;
  [[nodiscard]] std::unique_ptr<ChangedRows> no_changes(std::uint32_t shift) const;
  [[nodiscard]] Chunk& chunk(RowContent content, StreamRef stream);
  void read(Consumer& consumer, Range& range, Chunk& chunk, StreamRef stream, const Visit& visit);
  [[nodiscard]] bool end_read(Consumer& consumer, StreamRef stream);
  void put_back(ChangedRows& changes, const std::function<void()>& mark, StreamRef stream);
  void put_back(ChangedRows& changes, std::span<const std::uint64_t> ids, StreamRef stream);

  const Source source_;
  const TrackerEnvironment environment_;
  const TrackerOptions options_;
  TrackerCounts counts_;
  std::uint64_t step_;
  std::size_t rows_ = 0;          ///< number of rows of all tables
  std::uint32_t most_shift_ = 0;  ///< 2^most_shift_ rows certainly fit into a chunk
  std::vector<std::unique_ptr<Consumer>> consumers_;
  std::vector<std::unique_ptr<Chunk>> chunks_;  ///< one for each content, made at its first read
  std::unique_ptr<ChangedRows> undelivered_;    ///< bitmap of a RowCapture; not under the cap
};

}  // namespace millrace
