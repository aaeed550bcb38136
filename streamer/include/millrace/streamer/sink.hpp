#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/streamer/step_batch.hpp"

namespace millrace {

/** @brief What a sink could not do, and what that means to whoever writes to it. */
class SinkError : public std::runtime_error {
 public:
  enum class Kind {
    retry,      ///< it is down, slow, full: the same call may succeed later
    lost,       ///< it does not have the mark before: it wants a snapshot
    wrong,      ///< it will never work: another schema, a folder that is none of ours
    overtaken,  ///< a later trainer writes there: nothing that this one writes counts any more
  };
  SinkError(Kind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}

  [[nodiscard]] Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

/** @brief What a sink has. */
struct SinkState {
  std::optional<StreamSchema> schema;       ///< none: it is empty
  std::map<std::uint32_t, StepMark> marks;  ///< the newest of each rank
  std::string position;                     ///< as the last batch with one gave it

  /** @brief Of all epochs; 0: none. */
  [[nodiscard]] std::uint64_t newest_epoch() const noexcept;
  /**
   * @brief The step that all ranks of the newest epoch have told, or more: it counts. Nothing: a
   *        rank's mark is not there yet.
   */
  [[nodiscard]] std::optional<Version> counts() const noexcept;
  /** @brief Rows that the newest marks call missing, on all ranks. */
  [[nodiscard]] std::uint64_t missing() const noexcept;
};

/**
 * @brief Where changed rows go: a place that has the newest version of each. Thread-safe.
 *
 * Nothing is opened or connected before it is needed. Every call but the constructor may throw
 * SinkError; what a call that threw has written, the same call completes.
 */
class Sink {
 public:
  virtual ~Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  /** @brief As open_sink was given it. */
  [[nodiscard]] virtual std::string name() const = 0;

  /** @brief What is there, as others left it as well. */
  [[nodiscard]] virtual SinkState state() = 0;

  /** @brief An empty sink takes the schema. @throws SinkError (wrong) if it has another */
  virtual void begin(const StreamSchema& schema) = 0;

  /**
   * @brief Writes rows, those that it has in a newer version left as they are, and then the mark.
   *
   * A mark that is there already, or a newer one of its rank and epoch, makes this nothing: a
   * repeat. Behind a mark of a later epoch nothing is written either, and that is an error.
   * @param position  of whoever applies, kept together with the mark; empty: none
   * @throws SinkError (lost) if the mark has another before it than the rank's newest here (one
   *         after {} goes behind any): nothing was written then; overtaken if the rank's newest
   *         mark is of a later epoch; retry: any part may have been written
   */
  virtual void write(const StepBatch& batch, std::string_view position = {}) = 0;

  /** @brief What was written so far survives what the sink promises to survive. */
  virtual void flush() = 0;

  /** @brief Visits the newest version of every row, in any order; spans are valid during a visit.
   *  @throws what `visit` throws; RecordError for a row that is damaged */
  virtual void read(const std::function<void(const RowRecord&)>& visit) = 0;

  /**
   * @brief The number of the newest request for all rows anew, by somebody who applies and has
   * found a gap; 0: there was none. It stays: every rank answers it, and says so in its marks.
   * Each is another number, and need not be a greater one: clocks differ, and people err.
   */
  [[nodiscard]] virtual std::uint64_t snapshot_request() { return 0; }

  /**
   * @brief Looks whether what was written is kept, as far as that can be told for little: with each
   *        flush, and before a trainer goes on with what is there.
   * @param rank   that asks: what the sink can tell by rank is told of this one
   * @param epoch  of its trainer
   * @throws SinkError: lost if rows may have gone that were written: all are to be told anew;
   *         wrong if rows go there, or will go, which nothing mends; overtaken if a mark is there
   *         of a later epoch; retry if it can not be told now
   */
  virtual void audit(std::uint32_t rank, std::uint64_t epoch) {
    static_cast<void>(rank);
    static_cast<void>(epoch);
  }

  /**
   * @brief Visits which rows are there, without their values; a row may be visited more than once.
   * @return false: this kind of sink can not tell without reading all values, and visited none
   * @throws SinkError; what `visit` throws
   */
  [[nodiscard]] virtual bool list_rows(
      const std::function<void(std::uint32_t table, std::int64_t row)>& visit) {
    static_cast<void>(visit);
    return false;
  }

  /**
   * @brief Calls end by then, with SinkError (retry) if they are not done: the one under way too.
   *        For what a network peer can hold up; thread-safe. `time_point::max()`: as if never
   * asked.
   */
  virtual void finish_by(std::chrono::steady_clock::time_point end) noexcept {
    static_cast<void>(end);
  }

 protected:
  Sink() = default;
};

/** @brief What can be read in the order in which it was written: a file's folder, a topic. */
class RecordSource {
 public:
  struct Next {
    StepBatch batch;
    std::string position;  ///< behind it
    /**
     * What of this rank, up to here, is gone for good, in words; empty: nothing. The mark calls it
     * missing, and later marks do not: whoever applies does, until that rank has told all rows
     * anew.
     */
    std::string lost{};
  };

  /** What of a log `next` has not given yet. */
  struct Left {
    std::uint64_t count = 0;   ///< 0: every whole batch was given
    std::string_view of = "";  ///< what is counted: "bytes", "messages"
  };

  virtual ~RecordSource() = default;
  RecordSource(const RecordSource&) = delete;
  RecordSource& operator=(const RecordSource&) = delete;

  [[nodiscard]] virtual std::string name() const = 0;
  /** @brief Goes behind what was read up to `position`; empty: to the beginning of what is there.
   *  @throws SinkError (lost) if it is there no more: go to the beginning */
  virtual void seek(std::string_view position) = 0;
  /** @brief Of what is read next; nothing: nothing was written yet, or the schema is gone. */
  [[nodiscard]] virtual std::optional<StreamSchema> schema() = 0;
  /** @brief Gives the schema of a copy of this log, for a log that has lost its own.
   *  @throws SinkError (wrong) if the log has another one */
  virtual void take_schema(const StreamSchema& schema) = 0;
  /** @brief The next whole batch; nothing if there is none within `patience`.
   *  @throws SinkError; RecordError for what no writer of ours wrote */
  [[nodiscard]] virtual std::optional<Next> next(std::chrono::nanoseconds patience) = 0;
  /** @brief What is left to give of the log as it is now, at the time of the call. A batch that is
   *         cut short at the end is not counted. @throws as `next` */
  [[nodiscard]] virtual Left left() = 0;
  /** @brief Asks all ranks that write for all rows anew: there was a gap. The request has another
   *         number than the one before: the time in milliseconds, say. See Sink::snapshot_request
   */
  virtual void ask_for_snapshot() = 0;

 protected:
  RecordSource() = default;
};

/**
 * @brief What a user wrote as a sink or a source, as it may be shown: without a user, a password,
 * or the value of a setting that is a secret, though it be no address at all. Everything that
 *        prints, logs or throws what a user wrote shows this.
 */
[[nodiscard]] std::string redacted(std::string_view spec);

/**
 * @brief Makes a sink from its address, such as `file:DIR`. sink_kinds.hpp lists the kinds; the
 *        address `memory` makes a MemorySink.
 * @param spec  as a user writes it
 * @throws std::invalid_argument if no kind of sink has such an address, or if this build does not
 *         have that kind: then the message says how to get it
 */
[[nodiscard]] std::unique_ptr<Sink> open_sink(std::string_view spec);
/**
 * @brief Opens a sink to read its batches in the order in which they were written.
 * @throws std::invalid_argument as open_sink, and if that kind of sink keeps no order
 */
[[nodiscard]] std::unique_ptr<RecordSource> open_source(std::string_view spec);

}  // namespace millrace
