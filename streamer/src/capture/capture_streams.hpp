#pragma once

#include <optional>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/pipeline/model/model_context.hpp"
#include "millrace/streamer/row_capture.hpp"

namespace millrace::capture {

/**
 * @brief The streams of a capture, and which of them waits for what.
 *
 * All that touches the bitmap, or slots' memory on the device, runs in one order: on the streams of
 * the updates, which follow each other, or on one gather stream. `ring` and `ring_kernel` copy on
 * a stream of their own. Memory is made on main; a stream waits for that before its first use.
 *
 * Thread safety: the training thread only, except `copy`, whose stream the copier uses, too.
 */
class CaptureStreams {
 public:
  struct Wanted {
    bool gather = false;  ///< a stream for gathers
    bool copy = false;    ///< a stream for copies
  };
  explicit CaptureStreams(ModelContext& context) : context_(context) {}

  /** @brief Makes the streams. The capture's first memory is made. @throws DeviceError */
  void open(const Wanted& wanted);
  /** @brief Makes main wait for everything that is enqueued. */
  void close() noexcept;

  /** @return the stream for gathers, ordered after `stream` and after the making of memory */
  [[nodiscard]] StreamRef begin(StreamRef stream);
  /** @brief More memory was made on main: a stream waits for it. */
  void memory_made(StreamRef on);

  /** @brief An operation on the bitmap was enqueued. */
  void operated(StreamRef on);
  /** @brief A gather was enqueued, and this event recorded after it. */
  void gathered(const Event& event);
  /**
   * @brief Orders what changes or moves rows next after the gathers, if these run on another
   * stream.
   * @return how many of the two attempts failed: 2 if neither the stream nor the host could wait
   */
  [[nodiscard]] int before_move(StreamRef stream);

  /** @return true if gathers have a stream of their own */
  [[nodiscard]] bool own() const noexcept { return gather_.has_value(); }
  /** @return the stream for copies; null if there is none */
  [[nodiscard]] Stream* copy() noexcept { return copy_ ? &*copy_ : nullptr; }
  [[nodiscard]] OrderedDevice& ordered() const noexcept { return context_.allocator().device(); }

 private:
  ModelContext& context_;
  std::optional<Stream> gather_, copy_;
  Event made_;                     ///< after the making of memory, on main
  Event last_;                     ///< after the last operation
  std::vector<StreamId> used_on_;  ///< streams that have waited for `made_`
  std::optional<Event> unwaited_;  ///< a gather on `gather_`: what moves rows next waits for it
};

}  // namespace millrace::capture
