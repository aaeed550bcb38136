#pragma once

#include <optional>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/pipeline/model/model_context.hpp"
#include "millrace/streamer/row_capture.hpp"

namespace millrace::capture {

/**
 * @brief The streams of a capture, and the order between them.
 *
 * All work on the bitmap and on the slots' device memory runs in one order: on the streams of the
 * updates, which follow each other, or on one gather stream. `ring` and `ring_kernel` copy on a
 * second stream. Main allocates the memory; every other stream waits for that before its first use.
 *
 * Thread safety: only the training thread; the copier also uses the stream of `copy`.
 */
class CaptureStreams {
 public:
  struct Wanted {
    bool gather = false;  ///< a stream for gathers is needed
    bool copy = false;    ///< a stream for copies is needed
  };
  explicit CaptureStreams(ModelContext& context) : context_(context) {}

  /**
   * @brief Makes the streams. Call it after the capture's first allocations. @throws DeviceError
   */
  void open(const Wanted& wanted);
  /** @brief Makes main wait for all enqueued work. */
  void close() noexcept;

  /** @return the stream for gathers, ordered after `stream` and after main's allocations */
  [[nodiscard]] StreamRef begin(StreamRef stream);
  /** @brief Call after another allocation on main: a stream waits for it. */
  void memory_made(StreamRef on);

  /** @brief Call after an operation on the bitmap was enqueued. */
  void operated(StreamRef on);
  /** @brief Call after a gather was enqueued and this event recorded after it. */
  void gathered(const Event& event);
  /**
   * @brief Call before rows change or move: orders `stream` after gathers that run on another
   * stream.
   * @return number of failed attempts: 2 if neither the stream nor the host could wait
   */
  [[nodiscard]] int before_move(StreamRef stream);

  /** @return true if gathers have a stream of their own */
  [[nodiscard]] bool own() const noexcept { return gather_.has_value(); }
  /** @return the stream for copies; null without one */
  [[nodiscard]] Stream* copy() noexcept { return copy_ ? &*copy_ : nullptr; }
  [[nodiscard]] OrderedDevice& ordered() const noexcept { return context_.allocator().device(); }

 private:
  ModelContext& context_;
  std::optional<Stream> gather_, copy_;
  Event made_;                     ///< recorded on main after its allocations
  Event last_;                     ///< recorded after the last operation
  std::vector<StreamId> used_on_;  ///< streams that have waited for `made_`
  /** A gather on `gather_` for which the next move of rows must wait. */
  std::optional<Event> unwaited_;
};

}  // namespace millrace::capture
