#pragma once

#include "millrace/device/ordered_device.hpp"

namespace millrace {

struct Mark;

/**
 * @brief Owns a stream of an ordered device, attached from birth to death.
 *
 * Destruction leaves a last marker and destroys the driver's stream; queued work still runs.
 */
class Stream {
 public:
  /** @param independent  see AttachOptions */
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

  /** @brief Ends a phase of the program: what was freed before can be waited for precisely. */
  Point mark() { return device_->mark(ref_); }
  void wait(const Event& event) { device_->wait(ref_, event); }
  void synchronize() { device_->synchronize(ref_); }

  /** @brief Waits for everything enqueued on `other` so far: a marker there, a wait here. */
  void wait_stream(StreamRef other);

 private:
  void close() noexcept;

  OrderedDevice* device_;
  StreamRef ref_;
};

/**
 * @brief A place on a stream to wait for; like a CUDA event, but each recording is a new marker.
 *
 * Before it is first recorded, waiting on it orders nothing and it queries as complete. Copies
 * share what was recorded, and keep it when the original is recorded again.
 */
class Event {
 public:
  Event() noexcept = default;
  Event(const Event& other) noexcept;
  Event(Event&& other) noexcept;
  Event& operator=(Event other) noexcept;
  ~Event();

  [[nodiscard]] bool recorded() const noexcept { return mark_ != nullptr; }
  /** @brief The marker that it stands for; {} before it is recorded. */
  [[nodiscard]] Point point() const noexcept;

 private:
  friend class OrderedDevice;
  friend class MarkPool;
  explicit Event(Mark* held) noexcept : mark_(held) {}

  Mark* mark_ = nullptr;  // counted
};

}  // namespace millrace
