#pragma once

#include <cstdint>

#include "millrace/streamer/shipper.hpp"
#include "ship/resume.hpp"
#include "ship/retrier.hpp"

namespace millrace::ship {

/**
 * @brief Writes to a sink for the actor of a shipper. Knows the chain of commits, whether rows are
 * unflushed and which request was answered, and retries each call.
 *
 * Used by the actor only. Every function may throw OutOfTime, and a SinkError that is neither
 * `retry` nor, if the function reports a lost sink by its result, `lost`.
 */
class SinkWriter {
 public:
  /** @brief What a writer works with. All members outlive the writer. */
  struct Environment {
    Sink& sink;
    Executor& executor;
    Retrier& retrier;
    const Lifecycle& lifecycle;
    const StreamBeginning& beginning;
  };
  explicit SinkWriter(const Environment& environment) : environment_(environment) {}

  /**
   * @brief Reads the state of the sink, and stores the schema in an empty one.
   * @return false if the sink needs a snapshot: it does not have all of the lineage, has lost rows,
   * or an applier has requested one
   */
  [[nodiscard]] bool begin();

  /** @brief Requested recaptures: the newest ticket, and the number of rows. */
  struct Recaptured {
    std::uint64_t ticket = 0, rows = 0;
  };
  /** @brief Recaptures rows from steps outside the lineage, and rows that are absent. */
  [[nodiscard]] Recaptured recapture_outdated(Recapture& recapture);

  /** @brief Lets the next commit begin a chain. A snapshot must follow. */
  void begin_chain() { after_ = {}; }
  /** @brief Writes a batch as the next one of the chain.
   * @return false if the sink has lost its commits and needs a snapshot */
  [[nodiscard]] bool write(StepBatch& batch);
  /**
   * @brief Flushes the rows that were written since the last flush.
   * @return false if the sink has lost rows and needs a snapshot
   */
  [[nodiscard]] bool flush();
  [[nodiscard]] bool unflushed() const noexcept { return unflushed_; }
  [[nodiscard]] Nanoseconds since_flush() const { return environment_.executor.now() - flushed_; }

  /** @return true if an applier has requested a snapshot since the last call */
  [[nodiscard]] bool snapshot_requested();
  /** @return false if the sink's audit finds that written rows may be lost */
  [[nodiscard]] bool keeps_all();

  enum class Listed { all, impossible, no_time };
  /** @brief Adds the rows that the sink has to `present`. Ends early when the shipper closes. */
  [[nodiscard]] Listed list(PresentRows& present);

 private:
  [[nodiscard]] bool has_newest_commit();

  const Environment environment_;
  Version after_;               ///< version of the rank's newest commit
  std::uint64_t answered_ = 0;  ///< newest request for a snapshot that was answered
  bool unflushed_ = false;
  Nanoseconds flushed_{0};
};

}  // namespace millrace::ship
