#pragma once

#include <cstdint>

#include "millrace/streamer/shipper.hpp"
#include "ship/resume.hpp"
#include "ship/retrier.hpp"

namespace millrace::ship {

/**
 * @brief A sink as the actor of a shipper uses it: it knows the chain of commits, what is not
 * flushed yet and which requests were answered, and retries each call.
 *
 * The actor only. Every function may throw OutOfTime, and SinkError that is neither `retry` nor, as
 * far as the function deals with it, `lost`.
 */
class SinkWriter {
 public:
  /** @brief What a writer works with. All of it outlives the writer. */
  struct Environment {
    Sink& sink;
    Executor& executor;
    Retrier& retrier;
    const Lifecycle& lifecycle;
    const StreamBeginning& beginning;
  };
  explicit SinkWriter(const Environment& environment) : environment_(environment) {}

  /** @brief Looks at what the sink has, and gives an empty one the schema.
   *  @return false if it needs a snapshot, because it does not have all of the lineage */
  [[nodiscard]] bool begin();

  /** @brief Recaptures that were asked for. */
  struct Recaptured {
    std::uint64_t ticket = 0, rows = 0;
  };
  /** @brief Recaptures rows from steps outside the lineage, and rows that are absent. */
  [[nodiscard]] Recaptured recapture_outdated(Recapture& recapture);

  /** @brief The next commit begins a chain: a snapshot follows. */
  void begin_chain() { after_ = {}; }
  /** @brief Writes a batch as the next one of the chain.
   *  @return false if the sink has lost its commits, and needs a snapshot */
  [[nodiscard]] bool write(StepBatch& batch);
  /** @brief Flushes what was written since the last time.
   *  @return false if the sink has lost something, and needs a snapshot */
  [[nodiscard]] bool flush();
  [[nodiscard]] bool unflushed() const noexcept { return unflushed_; }
  [[nodiscard]] Nanoseconds since_flush() const { return environment_.executor.now() - flushed_; }

  /** @return true if an applier has requested a snapshot since the last call */
  [[nodiscard]] bool snapshot_requested();
  /** @return true if the sink, as far as it knows, has everything that was written */
  [[nodiscard]] bool keeps_all();

  enum class Listed { all, impossible, no_time };
  /** @brief Notes which rows the sink has, unless the shipper closes. */
  [[nodiscard]] Listed list(PresentRows& present);

 private:
  [[nodiscard]] bool has_newest_commit();

  const Environment environment_;
  Version after_;               ///< of the newest commit of the rank
  std::uint64_t answered_ = 0;  ///< newest request for a snapshot that was answered
  bool unflushed_ = false;
  Nanoseconds flushed_{0};
};

}  // namespace millrace::ship
