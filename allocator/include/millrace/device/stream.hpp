#pragma once

#include "millrace/device/ordered_device.hpp"

namespace millrace {

struct Mark;

/**
 * @brief Owns a stream of an ordered device. The stream is attached while the object lives.
 *
 * The destructor records a last marker and destroys the driver's stream; enqueued work still runs.
 */
class Stream {
 public:
  /**
   * @brief Creates a stream and attaches it.
   * @param device       outlives the stream
   * @param options      how the stream is made
   * @param independent  Millrace never inserts a wait on or for this stream; see AttachOptions
   */
  explicit Stream(OrderedDevice& device, const StreamOptions& options = {},
                  bool independent = false);
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;

  operator StreamRef() const noexcept { return ref_; }  // NOLINT: borrowing is what it is for
  [[nodiscard]] StreamRef ref() const noexcept { return ref_; }
  [[nodiscard]] StreamHandle handle() const noexcept { return ref_.handle(); }
  [[nodiscard]] StreamId id() const noexcept { return ref_.id(); }
  [[nodiscard]] OrderedDevice& device() const noexcept { return *device_; }

  /**
   * @brief Records a marker at the end of a phase of the program.
   *
   * Other streams can then wait for memory freed before it without waiting for later work.
   * @return the marker
   */
  Point mark() { return device_->mark(ref_); }
  /** @brief Orders later work of this stream after `event`. The host does not block. */
  void wait(const Event& event) { device_->wait(ref_, event); }
  /** @brief Blocks the host until the stream's work so far is complete. */
  void synchronize() { device_->synchronize(ref_); }

  /** @brief Makes this stream wait for everything enqueued on `other` so far. Records a marker. */
  void wait_stream(StreamRef other);

 private:
  void close() noexcept;

  OrderedDevice* device_;
  StreamRef ref_;
};

/**
 * @brief A point in a stream that others can wait for. Unlike a CUDA event, each record makes a new
 *        marker.
 *
 * A wait for an event that was never recorded orders nothing, and a query returns complete. A copy
 * refers to the original's marker at the time of the copy, also if the original is recorded again.
 */
class Event {
 public:
  Event() noexcept = default;
  Event(const Event& other) noexcept;
  Event(Event&& other) noexcept;
  Event& operator=(Event other) noexcept;
  ~Event();

  [[nodiscard]] bool recorded() const noexcept { return mark_ != nullptr; }
  /** @brief Returns the marker of the latest record; {} if the event was never recorded. */
  [[nodiscard]] Point point() const noexcept;

 private:
  friend class OrderedDevice;
  friend class MarkPool;
  explicit Event(Mark* held) noexcept : mark_(held) {}

  Mark* mark_ = nullptr;  // counted
};

}  // namespace millrace
