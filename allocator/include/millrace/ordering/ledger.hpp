#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "millrace/ordering/frontier.hpp"
#include "millrace/ordering/point.hpp"

namespace millrace {

namespace ordering {
class OpenStreams;
}

/** @brief How a stream takes part in ordering. */
struct StreamTraits {
  bool legacy = false;   ///< the legacy default stream, which synchronizes with blocking streams
  bool blocking = true;  ///< synchronizes with the legacy stream (false: cudaStreamNonBlocking)
  /// Runs collectives or kernels that spin: Millrace never inserts a wait on it or for it, because
  /// an additional wait can deadlock such work.
  bool independent = false;
};

/** @brief Names what a waiter uses to wait for a marker (an event handle); opaque to the ledger. */
using MarkerToken = std::uint64_t;

/**
 * @brief A marker that is being recorded: its number is taken before the driver's call, and it is
 *        published after the call.
 *
 * If the call fails, destroy or reuse the object without publishing it: its number is skipped. An
 * object that is reused for many records keeps its memory, so that nothing is allocated.
 */
struct PendingRecord {
  Point point;
  Frontier before;  ///< what the recording stream was ordered after when the record began
  Point implied;    ///< a second point that the marker covers (legacy and blocking streams only)

  /**
   * @brief Returns all points that are complete once the marker is; a waiter joins them.
   *
   * Pass it only to `Ledger::complete`: it may contain an entry for all blocking streams together,
   * which only the ledger can interpret.
   */
  [[nodiscard]] Frontier snapshot() const;
};

/** @brief A published marker that is not known to be complete. */
struct WaitableMarker {
  Point point;
  MarkerToken token = 0;
  std::uint64_t serial = 0;  ///< number in the order of all published markers, from 1
};

/**
 * @brief Records which work is ordered after which, and decides the one rule.
 *
 * Each open stream has a frontier. Every change has two steps around the driver's call. A call that
 * failed publishes nothing.
 *   record       begin_record      -> call -> publish_record
 *   wait         call              -> join
 *   query        call              -> complete
 *   synchronize  begin_synchronize -> call -> complete
 * A marker does not cover a free that happens between the two steps of its record. All functions
 * are thread-safe; none of them calls other code.
 *
 * Costs. `next`, `next_if_open`, `completed`, `is_open`, `epoch` and `newest_serial` are a few
 * loads. So is `ordered`, if the stream, the device's progress or a frontier of up to six points
 * decides it. The other functions take one lock. A record copies the stream's frontier, unless that
 * is empty, and allocates nothing after the first few records. A complete marker is removed in
 * O(1). A search among the markers of a stream is O(log n). The numbers of streams and of markers
 * in flight do not matter, except for functions that return a frontier or a list of streams. (If
 * blocking streams close one by one while others wait, the legacy stream's next call of `ordered`
 * costs O(blocking streams).)
 *
 * The legacy stream. Each of its operations waits for all blocking streams, which then wait for it.
 * Its next operation is therefore ordered after all work so far of every open blocking stream. The
 * next operation of a blocking stream is ordered after all work so far of the legacy stream.
 * `ordered` needs no marker for either order. A marker on either side counts as a new marker on the
 * other side too. While the legacy stream could wait for an independent blocking stream, it counts
 * as independent itself. Per-thread default streams are ordinary blocking streams.
 *
 * Stream capture. A stream that is being captured executes nothing. Never record or wait on it for
 * the ledger, and do not publish what was recorded there. No other action is needed: its numbers do
 * not change.
 */
class Ledger {
 public:
  Ledger();
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /**
   * @brief Opens a new stream, which is ordered after nothing (a blocking one: after the legacy
   *        stream).
   * @return the stream's id, which is never reused
   * @throws std::invalid_argument if `traits.legacy` and a legacy stream is open already
   */
  [[nodiscard]] StreamId open(StreamTraits traits = {});

  /**
   * @brief Closes a stream and forgets its frontier.
   *
   * Its published markers can still be waited for. Closing orders nothing. A later free on the
   * stream carries `last`.
   * @param stream  an open stream
   * @param last    the marker after all work of the stream; 0 if no marker covers all of it: the
   *                rest then becomes complete only with `begin_synchronize`
   * @throws std::invalid_argument if the stream is not open, or has no marker `last`
   */
  void close(StreamId stream, Marker last = 0);

  /** @brief Returns whether the stream was opened and not closed yet. */
  [[nodiscard]] bool is_open(StreamId stream) const;
  /** @brief Returns the stream's traits; default traits if the ledger does not know the stream. */
  [[nodiscard]] StreamTraits traits(StreamId stream) const;

  /**
   * @brief Changes the traits of an open stream.
   * @throws std::invalid_argument if the stream is not open, or `traits.legacy` would change
   */
  void set_traits(StreamId stream, StreamTraits traits);

  /**
   * @brief Returns the number of the next marker of `stream`, which a free there carries.
   *
   * For a closed stream it returns the last marker, or 0 (before all work) once that is complete.
   * @throws std::invalid_argument if the stream never existed
   */
  [[nodiscard]] Marker next(StreamId stream) const;
  /** @brief Returns the number of the next marker of `stream`, or 0 if the stream is not open. */
  [[nodiscard]] Marker next_if_open(StreamId stream) const noexcept;

  /**
   * @brief Takes the next marker number. Points read from now on are after this marker.
   * @return the record, for `publish_record` after the driver's call
   * @throws std::invalid_argument if the stream is not open
   */
  [[nodiscard]] PendingRecord begin_record(StreamId stream);
  /** @brief Overload that reuses the memory of `record`, for callers that record often. */
  void begin_record(StreamId stream, PendingRecord& record);

  /**
   * @brief Publishes a marker after the driver's call succeeded. `record` keeps its memory.
   * @param record  from `begin_record`
   * @param token   what a waiter uses to wait for the marker
   * @return the marker's serial; 0 if the stream is closed and complete: the ledger then does not
   *         keep the token
   */
  std::uint64_t publish_record(PendingRecord&& record, MarkerToken token);

  /**
   * @brief Removes the token of a marker, because its event is recorded again.
   *
   * Earlier waits on the token stay valid, and `join` and `complete` still accept the marker.
   * @return the token, which `complete` will no longer return; std::nullopt if `complete` returned
   *         it already
   */
  std::optional<MarkerToken> withdraw(Point marker);

  /**
   * @brief Notes that `waiter` waits for `marker`: it is then ordered after all that the marker's
   *        stream was ordered after.
   *
   * A marker that was never published orders nothing.
   * @throws std::invalid_argument if `waiter` is not open
   */
  void join(StreamId waiter, Point marker);

  /**
   * @brief Returns the frontier that a waiter on the published `marker` joins, without complete
   *        points.
   */
  [[nodiscard]] Frontier snapshot(Point marker) const;

  /**
   * @brief Takes a marker number on `stream` and returns a frontier of everything enqueued there so
   *        far.
   *
   * Pass it to `complete` after a synchronization of the stream, or after a query that returned
   * complete, if that call started after this one. It is not a record: for the legacy stream it
   * does not include the blocking streams.
   * @throws std::invalid_argument if the stream is not open
   */
  [[nodiscard]] Frontier begin_synchronize(StreamId stream);

  /** @brief The same for all streams, including closed ones, to synchronize the device. */
  [[nodiscard]] Frontier begin_synchronize();

  /**
   * @brief Notes that `marker` is complete, and therefore all work that it was ordered after.
   *
   * Ignores numbers that were never taken.
   * @return the tokens of markers that no wait needs anymore; each token is returned once
   */
  std::vector<MarkerToken> complete(Point marker);
  /** @brief Overload for all points of `frontier`. */
  std::vector<MarkerToken> complete(const Frontier& frontier);
  /** @brief Overload that appends the tokens to `done`. */
  void complete(Point marker, std::vector<MarkerToken>& done);

  /**
   * @brief Decides the one rule for work: whether `point` happens before the next operation of
   *        `user`.
   */
  [[nodiscard]] bool ordered(Point point, StreamId user) const;

  /**
   * @brief Decides the one rule for the host: whether the device is known to have completed
   *        `point`.
   */
  [[nodiscard]] bool completed(Point point) const;

  /**
   * @brief Returns a number that changes after every wait and every completion.
   *
   * While it stays the same, a point for which `completed` was false is still not complete. A point
   * for which `ordered` was false is still not ordered, if its marker had been taken.
   */
  [[nodiscard]] std::uint64_t epoch() const noexcept;

  /**
   * @brief Lists the streams that have made progress since an earlier call.
   * @param seen     0 in the first call, then the value that the previous call left; it is set to
   *                 the present
   * @param streams  receives the streams at its end; a stream may appear twice
   * @return false if the list is not available: any stream may have made progress, and nothing is
   *         appended
   */
  [[nodiscard]] bool completed_since(std::uint64_t& seen, std::vector<StreamId>& streams) const;

  /** @brief Returns the serial of the newest published marker; 0 if there is none. */
  [[nodiscard]] std::uint64_t newest_serial() const noexcept;

  /** @brief Returns the number of published markers that are neither complete nor withdrawn. */
  [[nodiscard]] std::size_t outstanding_markers() const noexcept;
  /** @brief Returns the number of streams with such markers. */
  [[nodiscard]] std::size_t streams_in_flight() const noexcept;

  /** @brief Returns the earliest published marker of the point's stream that covers it, if any. */
  [[nodiscard]] std::optional<WaitableMarker> earliest_covering(Point point) const;

  /** @brief Returns, for each stream, the oldest marker that is not known to be complete. */
  [[nodiscard]] std::vector<WaitableMarker> oldest_outstanding() const;
  /**
   * @brief Overload for at most `most` streams at a time.
   * @param slot    the slot to start from; set to the slot to continue from, or to 0 after the last
   * @param most    maximum number of streams
   * @param oldest  receives the markers at its end
   */
  void oldest_outstanding(std::uint32_t& slot, std::size_t most,
                          std::vector<WaitableMarker>& oldest) const;

  /**
   * @brief Returns an outstanding marker of `stream` by its place.
   * @param stream  the stream
   * @param nth     places after the oldest outstanding marker
   * @param before  only markers with a number below this count: if the `nth` is not one of them,
   *                the last of them is returned
   * @return std::nullopt if no such marker exists
   */
  [[nodiscard]] std::optional<WaitableMarker> outstanding(StreamId stream, std::size_t nth,
                                                          Marker before) const;

  /**
   * @brief Returns the points that the next operation of `stream` is ordered after. Together with
   *        `completed_frontier` it covers exactly the points for which `ordered` is true.
   *
   * For inspection only; do not pass it to `join` or `complete`, since it contains markers that do
   * not exist yet.
   * @throws std::invalid_argument if the stream is not open
   */
  [[nodiscard]] Frontier frontier(StreamId stream) const;

  /** @brief Returns the points that are known to be complete. */
  [[nodiscard]] Frontier completed_frontier() const;

  /**
   * @brief Returns the number of streams that are open or not known to be complete. The ledger's
   *        memory is proportional to it.
   */
  [[nodiscard]] std::size_t tracked_streams() const;

 private:
  friend class ordering::OpenStreams;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
