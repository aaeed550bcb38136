#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "capture/capture_streams.hpp"
#include "capture/copier.hpp"
#include "capture/delivery_queue.hpp"
#include "capture/dirty_marker.hpp"
#include "capture/gatherer.hpp"
#include "capture/shared_parts.hpp"
#include "capture/source_rows.hpp"
#include "millrace/streamer/row_capture.hpp"

namespace millrace {

/**
 * How a step is captured: after an update, the training thread takes a slot and enqueues one
 * operation on the update's stream, the gather of the updated rows into the slot. The copier, an
 * actor, gets the slots in that order. Its stream waits for the gather's event. Then it fetches the
 * header, which announces the bytes that follow, and these bytes, and delivers the rows to the
 * receiver.
 *
 * Rows that cannot be delivered this way are marked in a bitmap on the device. While bits may be
 * set, a step also takes rows from the bitmap. If only one slot is free, the step's own rows go
 * through the bitmap, too.
 *
 * The parts, and the threads that use them:
 *
 *     State           this: decides what each step does; the training thread
 *     Gatherer        kernels and copies of one slot
 *     DirtyMarker     changes the bitmap; the training thread
 *     CaptureStreams  streams, and the order between them
 *     SharedParts     thread-safe: SlotPool (owners of slots), DirtyProtocol (the host's
 *                     knowledge of the bitmap), CaptureCounters
 *     DeliveryQueue   from the training thread to the copier
 *     Copier          delivers a step; the copier's actor
 *
 * A part with a mutex locks it for its own members only, and never across a device call.
 */
class RowCapture::State {
 public:
  State(const Source& source, const CaptureEnvironment& environment, const CaptureOptions& options);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void updated(const RowUpdate& update);
  void will_move(StreamRef stream);
  std::uint64_t mark_dirty(std::span<const TableRow> rows);
  std::uint64_t mark_all_dirty() { return shared_.dirty.request_all(); }
  void capture_dirty(std::uint64_t step, StreamRef stream);
  bool flush(StreamRef stream, Nanoseconds patience);
  void stop();
  [[nodiscard]] bool dirty() const { return shared_.maybe_dirty(); }
  [[nodiscard]] CaptureCounts counts() const { return shared_.counters.counts(); }
  [[nodiscard]] std::vector<StreamedTable> tables() const { return rows_.schema(); }
  [[nodiscard]] EmbeddingBags& bags() const noexcept { return source_.bags; }
  [[nodiscard]] ChangeTracker& tracker() noexcept { return tracker_; }

 private:
  using Slot = capture::Slot;
  using Delivery = capture::Delivery;

  [[nodiscard]] capture::SlotPool::Layout slot_layout() const;

  // A step.
  void capture(const RowUpdate& update, StreamRef on);
  void capture_dirty(const Delivery& delivery, StreamRef on);
  void gather(const capture::GatheredRows& rows, Delivery delivery, StreamRef on);
  [[nodiscard]] bool finish_gather(Slot& slot, const capture::GatheredRows& rows, StreamRef on);
  [[nodiscard]] bool fetch_and_wait(Slot& slot, StreamRef on);
  void leave_dirty(Slot& slot, const capture::GatheredRows& rows, StreamRef on);
  [[nodiscard]] std::size_t captures_left();

  // Slots.
  [[nodiscard]] std::optional<std::size_t> acquire(StreamRef on);
  [[nodiscard]] std::optional<std::size_t> take_slot(StreamRef on);
  [[nodiscard]] std::optional<std::size_t> make_slot(StreamRef on);

  // Deliveries.
  [[nodiscard]] Delivery delivery_of(std::uint64_t step) const;
  void enqueue(const Delivery& delivery) { queue_.push(delivery); }
  /** Enqueues a delivery without rows, unless another delivery of the step follows. */
  void enqueue_without_rows(const Delivery& delivery);

  const Source source_;
  /** Index of a table by its number in the schema. */
  const std::unordered_map<std::uint32_t, std::size_t> place_of_;
  const CaptureEnvironment environment_;
  const CaptureOptions options_;
  capture::SourceRows rows_;
  ChangeTracker tracker_;
  capture::DirtyRows& bitmap_;  ///< the tracker's bitmap of rows that could not be delivered
  capture::CaptureStreams streams_;
  capture::SharedParts shared_;
  capture::Gatherer gatherer_;
  capture::DirtyMarker marker_;
  capture::Copier copier_;
  capture::DeliveryQueue queue_;
  std::uint64_t step_ = 0;
  std::atomic<bool> stopped_ = false;
};

}  // namespace millrace
