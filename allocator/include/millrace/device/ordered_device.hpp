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
 * @brief Refers to a stream without owning it.
 *
 * The reference of an attached stream carries the stream's id, so no call looks it up. A raw handle
 * converts implicitly; each call then asks the driver for its stream id (one driver call). A handle
 * that was destroyed and reused is therefore never mistaken for the former stream.
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

/** @brief Describes a stream that Millrace did not create. */
struct AttachOptions {
  std::string name;
  bool independent = false;  ///< spins or runs collectives: no wait is inserted on it or for it
};

class Event;

/**
 * @brief Which evidence of completed device work is used.
 *
 * `polled`, the usual choice: memory can be reused as soon as a query finds an event complete. When
 * that happens depends on the device's speed. `synchronized`: only waits between streams and host
 * synchronization count. Ranks of one job that make the same calls then reuse the same memory at
 * the same call (docs/ordering.md).
 */
enum class Completion : std::uint8_t { polled, synchronized };

/**
 * @brief A device together with the order of its streams: which stream is ordered after which work.
 *
 * Every record, wait, query and synchronization through this class makes the driver call first and
 * publishes it to the ledger after it succeeded; a call that fails publishes nothing. Thread-safe;
 * no lock is held across a driver call. Inside a host callback the driver forbids calls. A
 * requested mark is then owed (at most one for each stream), and the next call from outside a
 * callback records it.
 *
 * Costs in addition to the driver's calls: `mark` takes a few short locks and allocates nothing
 * after the first few calls. `attached` and `newest_marker` are a few loads. The number of events
 * is the largest number of markers in flight; if it is large, every few marks query a few streams.
 * Finding which of a stream's n markers are complete takes O(log n) queries.
 */
class OrderedDevice {
 public:
  /**
   * @param device      outlives this object
   * @param completion  with `synchronized`, a poll queries nothing, and the result of a query is
   *                    not shared. Events are kept until the host synchronizes with a marker that
   *                    covers them: a program that never synchronizes keeps one event per marker
   */
  explicit OrderedDevice(Device& device, Completion completion = Completion::polled);
  ~OrderedDevice();
  OrderedDevice(const OrderedDevice&) = delete;
  OrderedDevice& operator=(const OrderedDevice&) = delete;

  [[nodiscard]] Device& device() const noexcept;
  [[nodiscard]] const Ledger& ledger() const noexcept;
  [[nodiscard]] Completion completion() const noexcept;

  /**
   * @brief Adds a stream of the caller. A stream that was used as a raw handle before keeps its id
   *        and its order.
   * @param stream   owned by the caller. Call `detach` before it is destroyed
   * @param options  the stream's name, and whether waits may be inserted on it
   * @return the reference to use from now on, with which no call looks the stream up
   * @throws std::invalid_argument if the stream is attached already, or if it is the per-thread
   *         stream: that handle means another stream on each thread, and is looked up at each call
   */
  [[nodiscard]] StreamRef attach(StreamHandle stream, AttachOptions options = {});

  /**
   * @brief Removes a stream: call it before the stream is destroyed.
   *
   * Records a last marker, so that other streams can still wait for memory that was freed there.
   * After it returns, Millrace does not use the handle anymore, on any thread.
   */
  void detach(StreamRef stream);

  /**
   * @brief Returns the reference with its id; a raw handle is looked up by the driver's stream id.
   *
   * If the driver has given a raw handle to another stream, the former stream was destroyed. Memory
   * that was freed on it can then be reused after the device has been synchronized.
   * @throws DeviceError (invalid_argument) for the per-thread stream of another thread
   */
  [[nodiscard]] StreamRef resolve(StreamRef stream);

  /**
   * @brief Announces a capture of `stream` into a graph. Call it before the driver's capture
   *        begins.
   *
   * Until `end_capture`, no event is recorded on the stream and no wait is inserted on it or for
   * it; `mark` is owed until then; and synchronizing the device is refused (`capture`), because it
   * would invalidate the capture. In this time a raw handle is resolved without a driver call. A
   * capture that is announced twice ends with the second `end_capture`.
   * @return the stream's reference with its id
   * @throws std::invalid_argument if the stream is the legacy or the per-thread stream, or detached
   */
  [[nodiscard]] StreamRef begin_capture(StreamRef stream);
  /**
   * @brief Ends the capture of the stream, after the driver's capture has ended. Records the marker
   *        that is owed, if any.
   */
  void end_capture(StreamRef stream);
  /** @brief Returns whether the stream is in an announced capture. */
  [[nodiscard]] bool captured(StreamId stream) const noexcept;
  [[nodiscard]] bool capturing() const noexcept;  ///< whether any stream is captured

  /**
   * @brief Opens a stream that exists in the ledger only, not in the driver. It is ordered after
   *        completed work only. Never record or wait on it.
   * @param name  for reports
   */
  [[nodiscard]] StreamRef open_nominal(std::string name);
  /**
   * @brief Closes a nominal stream.
   * @param idle  true: the stream represents no work. false: it may represent work that was not
   *              reported; then its point `ledger().next(id)` is complete after the next
   *              synchronization of the device
   */
  void close_nominal(StreamRef stream, bool idle);

  /** @brief Returns whether the stream is attached. */
  [[nodiscard]] bool attached(StreamId stream) const;
  /** @brief Returns the stream's name in reports: "main", "copy", ... */
  [[nodiscard]] std::string name(StreamId stream) const;

  /**
   * @brief Records a marker (a pooled event) on `stream`. Other streams can then wait for exactly
   *        the work enqueued so far.
   *
   * While the stream is captured, and in a host callback, the mark is owed: the marker that is
   * recorded later covers the returned point.
   * @return the marker
   */
  Point mark(StreamRef stream);

  /**
   * @brief Records a marker that covers `point` unless one exists, so that a poll can see it
   *        complete.
   * @return the recorded marker; std::nullopt if one exists already, if the stream is not attached
   *         or is captured, inside a host callback, and with Completion::synchronized
   */
  std::optional<Point> cover(Point point);

  /** @brief Records `event`, also if it was recorded before. Earlier waits are not affected. */
  void record(Event& event, StreamRef stream);
  /** @brief Orders later work of `stream` after `event`. The host does not block. An event that was
   *         never recorded orders nothing. */
  void wait(StreamRef stream, const Event& event);
  /** @return true if the work before the record is complete, or the event was never recorded */
  [[nodiscard]] bool query(const Event& event);
  /** @brief Blocks the host until the work before the record is complete. */
  void synchronize(const Event& event);

  /**
   * @brief Overload for an event that the caller created. Record it through this class only: a
   *        direct record would make later waits on it wrong.
   * @throws DeviceError (`invalid_argument`) if the stream has been detached
   */
  void record(EventHandle event, StreamRef stream);
  /**
   * @brief Makes the driver's wait. Notes the order only if the event was recorded here, and was
   *        neither recorded again nor forgotten during the call.
   */
  void wait(StreamRef stream, EventHandle event);
  void forget(EventHandle event);  ///< call it before the event is destroyed

  void synchronize(StreamRef stream);  ///< blocks until the stream's work so far is complete
  /**
   * @brief Blocks the host until all work of the device is complete.
   * @throws DeviceError (`capture`) while a stream is captured
   */
  void synchronize();

  /** @brief Stands for a marker that would be recorded now, at the tail of the point's stream. */
  static constexpr std::uint64_t kTail = ~std::uint64_t{0};

  /**
   * @brief Returns the marker that `wait_for` would use, without waiting.
   * @param waiter  the stream that would wait
   * @param point   the work that it would wait for
   * @return 0 if `waiter` is ordered after `point` already; otherwise the marker's serial (counted
   *         over all streams, in host order), or `kTail`; std::nullopt if `waiter` cannot be made
   *         to wait, because no marker covers the point and none can be recorded, or because one of
   *         the streams is independent
   */
  [[nodiscard]] std::optional<std::uint64_t> earliest_wait(StreamId waiter, Point point) const;

  /** @brief Returns the serial of the newest marker; 0 if none was recorded yet. */
  [[nodiscard]] std::uint64_t newest_marker() const;

  /**
   * @brief Makes `waiter` wait for the earliest marker that covers `point`.
   * @return true if `waiter` is ordered after `point` now; false if `earliest_wait` returns
   *         std::nullopt, or if `waiter` is captured or blocked by a capture. Then nothing has
   *         happened.
   */
  bool wait_for(StreamRef waiter, Point point);

  /**
   * @brief Blocks the host until `point` is complete.
   * @return false if no marker covers the point and none can be recorded; the host did not block
   */
  bool synchronize(Point point);

  /**
   * @brief Queries which markers have completed. For each stream with markers in flight, it queries
   *        the oldest one and, if that is complete, a few later ones (O(log n) queries for n
   *        markers).
   *
   * With Completion::synchronized, a poll queries nothing.
   */
  void poll();

  /** @brief Polls one stream: one query if none of its markers is complete. */
  void poll(StreamId stream);

  /**
   * @brief Queries the earliest marker that covers `point`, if one exists: at most one query.
   * @return whether `point` is known to be complete
   */
  bool poll(Point point);

 private:
  void tend();

  struct State;
  std::unique_ptr<State> state_;
};

/** @brief Returns whether the calling thread runs a host callback enqueued through a Device. */
[[nodiscard]] bool in_host_callback() noexcept;

}  // namespace millrace
