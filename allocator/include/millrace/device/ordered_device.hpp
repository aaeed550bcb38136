#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/device/device.hpp"
#include "millrace/ordering/ledger.hpp"

namespace millrace {

/**
 * @brief Borrows a stream.
 *
 * An attached stream carries its id, and nothing is looked up. A raw handle converts to one and is
 * resolved by the driver's stream id at each call (one driver call), so that a handle that was
 * destroyed and reused is never taken for its predecessor.
 */
class StreamRef {
 public:
  StreamRef(StreamHandle raw) noexcept : handle_(raw) {}  // NOLINT: implicit, as CUDA code expects

  [[nodiscard]] StreamHandle handle() const noexcept { return handle_; }
  [[nodiscard]] StreamId id() const noexcept { return id_; }  ///< invalid for a raw handle

 private:
  friend class OrderedDevice;
  StreamRef(StreamHandle handle, StreamId id) noexcept : handle_(handle), id_(id) {}

  StreamHandle handle_;
  StreamId id_;
};

/** @brief What Millrace is told of a stream that it did not create. */
struct AttachOptions {
  std::string name;
  bool independent = false;  ///< spins or meets peers: no wait is ever inserted on it or for it
};

class Event;

/**
 * @brief What counts as knowing that the device has finished something.
 *
 * `polled` is the usual choice: a query that finds an event complete lets memory be reused. When it
 * does so depends on the device's speed. `synchronized` knows only what the program's own order
 * says: waits between streams, and host synchronization. Ranks of one job that make the same calls
 * then reuse the same memory at the same call (see docs/ordering.md).
 */
enum class Completion : std::uint8_t { polled, synchronized };

/**
 * @brief A device, and who is ordered after whom on it.
 *
 * Every record, wait, query and synchronisation that goes through here is made first and published
 * to the ledger after it succeeded; a call that failed publishes nothing. Thread-safe; no lock is
 * held across a driver call. Inside a host callback no driver call is made: marks asked for there
 * are owed, one a stream, and made by the next call from elsewhere.
 *
 * Costs, beside the driver's calls: `mark` takes a few short locks and allocates nothing once there
 * were a few; `attached`, `newest_marker` and what `Ledger` says so of are a few loads. Events are
 * as many as markers were in flight at once; where there are many, every few marks ask about a few
 * streams. A stream's markers that are complete cost O(log n) queries together.
 */
class OrderedDevice {
 public:
  /**
   * @param completion  with `synchronized`, no poll asks the device, a query answers its caller and
   *        nobody else, and events are kept until the host synchronizes with what covers them:
   *        a program that never synchronizes then keeps one event for each marker
   */
  explicit OrderedDevice(Device& device, Completion completion = Completion::polled);
  ~OrderedDevice();
  OrderedDevice(const OrderedDevice&) = delete;
  OrderedDevice& operator=(const OrderedDevice&) = delete;

  [[nodiscard]] Device& device() const noexcept;
  [[nodiscard]] const Ledger& ledger() const noexcept;
  [[nodiscard]] Completion completion() const noexcept;

  /**
   * @brief Takes part in ordering from now on; the handle stays the caller's. One that was used as
   *        a raw handle before stays the same stream.
   * @throws std::invalid_argument if it is attached already, or is the per-thread stream: that
   *         handle is another stream on each thread, and is looked up at each call
   */
  [[nodiscard]] StreamRef attach(StreamHandle stream, AttachOptions options = {});

  /**
   * @brief Leaves a last marker, so that what was freed there can still be waited for.
   *
   * When it returns, no other thread uses the handle on Millrace's behalf any more.
   */
  void detach(StreamRef stream);

  /**
   * @brief The same stream with its id; raw handles are looked up by the driver's stream id.
   *
   * A raw handle that has become another stream's tells that the former stream is destroyed. What
   * was freed there is then complete when the device has been synchronised.
   * @throws DeviceError (invalid_argument) for the per-thread stream of another thread
   */
  [[nodiscard]] StreamRef resolve(StreamRef stream);

  /**
   * @brief A capture into a graph begins on `stream`; tell it before the driver is told.
   *
   * Until `end_capture` nothing is recorded or waited for there, no wait is promised that would
   * need it, `mark` owes the marker until then, and synchronising the device is refused
   * (`capture`), since that would break the capture. A raw handle is known meanwhile without asking
   * the driver. Told twice, it ends with the second `end_capture`.
   * @throws std::invalid_argument for the legacy and the per-thread stream, and one that is
   * detached
   */
  [[nodiscard]] StreamRef begin_capture(StreamRef stream);
  /** @brief It is over, as the driver was told before. Records the mark that is owed, if one is. */
  void end_capture(StreamRef stream);
  [[nodiscard]] bool captured(StreamId stream) const noexcept;
  [[nodiscard]] bool capturing() const noexcept;  ///< any stream

  /**
   * @brief A stream in name only: the driver has none, and nothing is enqueued there. It is ordered
   *        after what is complete and nothing else. Never record or wait on it.
   * @param name  for reports
   */
  [[nodiscard]] StreamRef open_nominal(std::string name);
  /**
   * @brief Ends it.
   * @param idle  false: work that nobody told of goes by its name; its point, `ledger().next(id)`,
   *              is complete when the device has been synchronised
   */
  void close_nominal(StreamRef stream, bool idle);

  [[nodiscard]] bool attached(StreamId stream) const;
  /** @brief "main", "copy", ...: for reports. */
  [[nodiscard]] std::string name(StreamId stream) const;

  /**
   * @brief Ends a phase: records a pooled event. Cheap, and what makes waits precise.
   *
   * While the stream is captured, and in a host callback, the mark is owed: the point returned is
   * covered by the one that is made later.
   */
  Point mark(StreamRef stream);

  /**
   * @brief Records a marker that covers `point`, if there is none: so that a poll can see it pass.
   * @return the marker that was recorded; nothing where there is one already, the stream is not
   *         attached or is being captured, inside a host callback, and with
   *         Completion::synchronized
   */
  std::optional<Point> cover(Point point);

  /** @brief Records `event` (anew). Earlier waiters keep what they got. */
  void record(Event& event, StreamRef stream);
  void wait(StreamRef stream, const Event& event);
  [[nodiscard]] bool query(const Event& event);
  void synchronize(const Event& event);

  /** @brief The same for a caller's own event: it must never be recorded behind our back. */
  void record(EventHandle event, StreamRef stream);
  void wait(StreamRef stream, EventHandle event);
  void forget(EventHandle event);  ///< before it is destroyed

  void synchronize(StreamRef stream);
  void synchronize();

  /** @brief A wait at the tail of the point's stream, on a marker that is still to be recorded. */
  static constexpr std::uint64_t kTail = ~std::uint64_t{0};

  /**
   * @brief How early `wait_for` would let `waiter` go on.
   * @return 0: it is ordered already; else the serial (counted over all streams, in host order) of
   *         the marker it would wait on, or `kTail`; nothing if it can not be made to wait,
   *         because no marker covers the point and none can be recorded, or a stream is independent
   */
  [[nodiscard]] std::optional<std::uint64_t> earliest_wait(StreamId waiter, Point point) const;

  /** @brief The serial of the newest marker; 0: none was recorded yet. */
  [[nodiscard]] std::uint64_t newest_marker() const;

  /**
   * @brief Orders `waiter` after `point`, on the earliest marker that covers it.
   * @return false if nothing that covers it can be waited for; nothing has happened then
   */
  bool wait_for(StreamRef waiter, Point point);

  /** @brief The host blocks until `point` is complete. @return as `wait_for` */
  bool synchronize(Point point);

  /**
   * @brief Asks the device what has completed: of each stream with markers in flight the oldest one
   *        and, where that is complete, a few later ones: O(log n) queries of n markers.
   *
   * With Completion::synchronized, no poll asks anything.
   */
  void poll();

  /** @brief The same of one stream: one query if nothing there is complete. */
  void poll(StreamId stream);

  /**
   * @brief Asks about the earliest marker that covers `point`, if there is one: at most one query.
   * @return whether `point` is known to be complete
   */
  bool poll(Point point);

 private:
  void tend();

  struct State;
  std::unique_ptr<State> state_;
};

/** @brief True while the calling thread runs a host callback enqueued through a Device. */
[[nodiscard]] bool in_host_callback() noexcept;

}  // namespace millrace
