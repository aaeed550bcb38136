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

namespace millrace {

/** @brief What a tracker does for a consumer whose bitmap finds no room under
 * the cap. */
enum class OverCap {
  coarsen,  ///< a bit stands for 2, 4, 8, ... rows next to each other, as long
            ///< as all of them fit into a chunk: more rows are told than changed
  refuse,   ///< there is no such consumer then
};

struct TrackerOptions {
  /** Bytes of device memory for the bitmaps of all consumers; 0: no end. What
   * reads go through, `chunk_bytes` for each content, is beside that. */
  std::size_t memory_cap = 0;
  OverCap over_cap = OverCap::coarsen;
  /** Bytes that are read at once, at most, on the device and in pinned memory
   * each. */
  std::size_t chunk_bytes = std::size_t{8} << 20;
  std::vector<std::string> skipped_tables;  ///< never told; their rows are counted
};

struct TrackerCounts {
  std::uint64_t steps = 0;     ///< that were seen
  std::uint64_t rows = 0;      ///< that were read, by all consumers
  std::uint64_t skipped = 0;   ///< of tables that are skipped, when they would have been read
  std::uint64_t failures = 0;  ///< of the driver, to mark rows: all count as changed then
};

/**
 * @brief Remembers which rows of an EmbeddingBags have changed, for consumers
 * that read at their own pace.
 *
 * A consumer has a cursor: the step up to which it has read. What it reads next
 * is compacted over all steps since: each row that changed once, ascending,
 * with its values of now. For that it has a bitmap on the device, one bit a
 * row, set behind each update without the host: memory is the same however many
 * steps a consumer lags behind.
 *
 * Called by the thread that trains, as all use of the tables. No error of the
 * driver reaches training.
 */
class ChangeTracker final : public RowUpdateObserver {
 public:
  struct Source {
    EmbeddingBags& bags;                ///< outlives the tracker
    std::vector<std::uint32_t> tables;  ///< of each of its tables the number in the schema
  };
  struct Memory {
    ModelContext& context;
    Allocator& pinned;  ///< of pinned host memory
  };

  /** @brief Observes the bags from now on. @throws std::invalid_argument for a
   * table to skip that there is not, or chunks without room for a row */
  ChangeTracker(const Source& source, const Memory& memory, const TrackerOptions& options = {});
  ~ChangeTracker() override;
  ChangeTracker(const ChangeTracker&) = delete;
  ChangeTracker& operator=(const ChangeTracker&) = delete;

  void rows_updated(const RowUpdate& update) override;

  /**
   * @brief From now on there is a consumer of this name; its cursor is the step
   * of now.
   * @throws std::invalid_argument if there is one, or the cap leaves no room;
   * out_of_memory
   */
  void add_consumer(const std::string& name);
  void remove_consumer(std::string_view name);
  [[nodiscard]] std::vector<std::string> consumers() const;
  /** @brief The step up to which it has read. @throws std::invalid_argument if
   * there is none */
  [[nodiscard]] std::uint64_t cursor(std::string_view consumer) const;
  /** @brief Rows that one of its bits stands for. @throws likewise */
  [[nodiscard]] std::size_t rows_per_bit(std::string_view consumer) const;
  /**
   * @brief Ends the range of steps that is read next at the step of now: rows
   * that change from now on belong to the range behind it.
   *
   * `read` then gives the rows that changed behind the cursor and up to here,
   * no others, with their values of when they are read: a row that changed
   * again is in both ranges. Until that range is read whole the consumer has a
   * second bitmap.
   * @return the step
   * @throws std::invalid_argument if there is no such consumer, it has such a
   * range already, or the cap leaves no room; out_of_memory, DeviceError:
   * nothing has changed then
   */
  std::uint64_t cut(std::string_view consumer);
  /** @brief Bytes of device memory of all consumers' bitmaps: what the cap is
   * for. */
  [[nodiscard]] std::size_t memory() const noexcept;
  [[nodiscard]] TrackerCounts counts() const noexcept { return counts_; }

  /** @brief Which steps were read: those after `after`, up to `to`: the cut, or
   * the step of now. */
  struct Range {
    std::uint64_t after = 0, to = 0;
    std::uint64_t rows = 0;
    bool complete = true;  ///< else something was not delivered, and the cursor stands
  };
  /** @brief Takes a chunk, in pinned memory, valid until it returns. false: it
   * could not be delivered; those rows count as changed again, and reading
   * ends. Of this consumer it calls `put_back` only. */
  using Visit = std::function<bool(const CapturedRows&)>;

  /**
   * @brief Reads the rows that changed behind the cursor, up to the cut or else
   * until now, in chunks, and waits for each. The cursor is at the end of the
   * range then.
   * @param stream  ordered behind all that changed the rows, and before all
   * that will
   * @throws std::invalid_argument if there is no such consumer; out_of_memory,
   * DeviceError: what was not visited is read the next time
   */
  Range read(std::string_view consumer, RowContent content, StreamRef stream, const Visit& visit);

  /**
   * @brief What was read can not be delivered after all: it counts as changed
   * again, and the cursor goes back to before it (`CapturedRows::after`).
   *
   * The next read has these rows; what a visitor puts back is read when the
   * read that it is in has ended. Waits for the stream. Where the rows can not
   * be marked all count as changed.
   * @param rows    as they were visited, or a copy of some
   * @param stream  as of `read`
   * @throws std::invalid_argument if there is no such consumer
   */
  void put_back(std::string_view consumer, const CapturedRows& rows, StreamRef stream);

 private:
  struct Changes;
  struct Consumer;
  class Chunk;

  [[nodiscard]] Consumer& find(std::string_view name) const;
  [[nodiscard]] std::size_t room_under_cap() const noexcept;
  [[nodiscard]] std::uint32_t shift_under_cap() const;
  [[nodiscard]] std::unique_ptr<Changes> no_changes(std::uint32_t shift) const;
  [[nodiscard]] Chunk& chunk(RowContent content, StreamRef stream);
  void read(Consumer& consumer, Range& range, Chunk& chunk, StreamRef stream, const Visit& visit);
  [[nodiscard]] bool end_read(Consumer& consumer, StreamRef stream);
  void put_back(Changes& changes, const std::function<void()>& mark, StreamRef stream);
  void put_back(Changes& changes, std::span<const std::uint64_t> ids, StreamRef stream);

  const Source source_;
  const Memory memory_;
  const TrackerOptions options_;
  TrackerCounts counts_;
  std::uint64_t step_;
  std::size_t rows_ = 0;          ///< of all tables
  std::uint32_t most_shift_ = 0;  ///< so many rows, 2^, surely fit into a chunk
  std::vector<std::unique_ptr<Consumer>> consumers_;
  std::vector<std::unique_ptr<Chunk>> chunks_;  ///< one a content, when it is first read
};

}  // namespace millrace
