#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "millrace/ordering/frontier.hpp"
#include "millrace/ordering/point.hpp"

namespace millrace {

/** @brief How a stream takes part in ordering. */
struct StreamTraits {
  bool legacy = false;       ///< the legacy default stream: joins, and is joined by, blocking ones
  bool blocking = true;      ///< synchronises with the legacy stream (false: cudaStreamNonBlocking)
  bool independent = false;  ///< spins or meets peers: Millrace never inserts a wait on or for it
};

/** @brief What a caller can wait on for a marker; opaque here (an event handle in practice). */
using MarkerToken = std::uint64_t;

/**
 * @brief A marker that is being recorded: taken before the call, published after it.
 *
 * Dropping it unpublished (the call failed) is fine: its numbers are skipped. One that is used for
 * record after record keeps its memory, and nothing is allocated.
 */
struct PendingRecord {
  Point point;
  Frontier before;  ///< what the recording stream was ordered after, when it began
  Point implied;    ///< between the legacy and blocking streams: what else it stands for

  /**
   * @brief All that is complete once the marker is: what a waiter joins. For the ledger: points of
   *        blocking streams may be in it as one that only the ledger can read.
   */
  [[nodiscard]] Frontier snapshot() const;
};

/** @brief A published marker that has not been seen complete. */
struct WaitableMarker {
  Point point;
  MarkerToken token = 0;
  std::uint64_t serial = 0;  ///< of all markers published, counted from 1
};

/**
 * @brief Who is ordered after whom: the numbers behind the one rule.
 *
 * Each open stream has a frontier. Every change is two steps around the driver's call, and a call
 * that failed publishes nothing:
 *   record       begin_record      -> call -> publish_record
 *   wait         call              -> join
 *   query        call              -> complete
 *   synchronise  begin_synchronize -> call -> complete
 * Frees that come in between are not covered. All members may be called from any thread; none
 * calls out.
 *
 * Costs. `next`, `next_if_open`, `completed`, `is_open`, `epoch` and `newest_serial` are a few
 * loads; so is `ordered` where the stream, the device's progress or a frontier of up to six points
 * answers it. Others take one lock. A record copies the stream's frontier and allocates nothing
 * once there were a few; a marker that is complete is removed in O(1); a search among the markers
 * of a stream is O(log n). The number of streams and of markers in flight makes nothing slower,
 * but for functions that return a frontier or a list of streams. (Blocking streams that leave one
 * by one while others wait cost O(blocking streams) at the legacy stream's next question.)
 *
 * The legacy stream: each operation there waits for all blocking streams, and they then wait for
 * it. So its next operation is ordered after all work so far of every open blocking stream and
 * theirs after its own, and `ordered` needs no marker between them. A marker on either side is a
 * fresh one on the other too. While it could wait for an independent blocking stream it counts as
 * independent itself. Per-thread default streams are ordinary blocking streams.
 *
 * A stream that is being captured runs nothing: never record or wait on it for the ledger's sake,
 * and publish nothing that was recorded there. Not calling is enough: its numbers stay put.
 */
class Ledger {
 public:
  Ledger();
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /**
   * @brief A new stream, ordered after nothing (blocking ones: after the legacy stream).
   * @throws std::invalid_argument if it is the legacy stream and that is open already
   */
  [[nodiscard]] StreamId open(StreamTraits traits = {});

  /**
   * @brief Forgets the stream's own frontier. Its published markers stay waitable; nothing is
   *        ordered by closing. What is freed there later carries `last`.
   * @param last  the marker that follows all the stream's work; 0 if there is none: then what was
   *              not covered when it closed becomes complete by `begin_synchronize` only
   * @throws std::invalid_argument if the stream is not open
   */
  void close(StreamId stream, Marker last = 0);

  [[nodiscard]] bool is_open(StreamId stream) const;
  /** @brief The default ones if nothing is known of the stream (any more). */
  [[nodiscard]] StreamTraits traits(StreamId stream) const;

  /**
   * @brief More is known of an open stream than when it was opened; it stays the same stream.
   * @throws std::invalid_argument if it is not open, or `legacy` is not as it was
   */
  void set_traits(StreamId stream, StreamTraits traits);

  /**
   * @brief The number that the next marker of `stream` will have: what a free there carries.
   *        Closed: the last one; 0, before all work, when that is complete.
   * @throws std::invalid_argument if there never was such a stream
   */
  [[nodiscard]] Marker next(StreamId stream) const;
  /** @brief `is_open` and `next` at once: the number of the next marker, or 0 if it is not open. */
  [[nodiscard]] Marker next_if_open(StreamId stream) const noexcept;

  /**
   * @brief Takes the next number. Points read from now on lie beyond this marker.
   * @throws std::invalid_argument if the stream is not open
   */
  [[nodiscard]] PendingRecord begin_record(StreamId stream);
  /** @brief The same, in the memory of an earlier record. */
  void begin_record(StreamId stream, PendingRecord& record);

  /**
   * @brief The call succeeded; `token` is what a waiter uses. `record` keeps memory for the next.
   * @return the marker's serial; 0 if the stream is gone and complete: the token is then not kept
   */
  std::uint64_t publish_record(PendingRecord&& record, MarkerToken token);

  /**
   * @brief `token` no longer stands for this marker (its event was recorded again). Those who
   *        waited before keep what they got, and may still join or complete it.
   * @return the token, which `complete` will not return any more; nothing if it was returned before
   */
  std::optional<MarkerToken> withdraw(Point marker);

  /**
   * @brief `waiter` now waits for the published `marker`: joins what its stream was behind. One
   *        that was never published orders nothing.
   * @throws std::invalid_argument if `waiter` is not open
   */
  void join(StreamId waiter, Point marker);

  /** @brief `waiter` is ordered after everything in `frontier` (a snapshot kept by an event). */
  void join(StreamId waiter, const Frontier& frontier);

  /** @brief What a waiter on the published `marker` joins, less what is complete anyway. */
  [[nodiscard]] Frontier snapshot(Point marker) const;

  /** @brief Whether `point` is complete once the published `marker` is: one entry of `snapshot`. */
  [[nodiscard]] bool precedes(Point point, Point marker) const;

  /**
   * @brief Everything enqueued so far on `stream`: `complete` it when a synchronisation (or a query
   *        that said so) that starts after this call has returned. Not a record: on the legacy
   *        stream it says nothing of the others.
   * @throws std::invalid_argument if the stream is not open
   */
  [[nodiscard]] Frontier begin_synchronize(StreamId stream);

  /** @brief The same of every stream, closed ones too, for synchronising the device. */
  [[nodiscard]] Frontier begin_synchronize();

  /**
   * @brief The device is known to have passed `marker`, and so all that it was ordered after.
   *        Numbers that were never taken are not believed.
   * @return the tokens of the markers that nobody needs to wait on any more, each once
   */
  std::vector<MarkerToken> complete(Point marker);
  std::vector<MarkerToken> complete(const Frontier& frontier);
  /** @brief The same; the tokens are appended to `done`. */
  void complete(Point marker, std::vector<MarkerToken>& done);

  /** @brief The one rule for work: is `point` before the next operation of `user`? */
  [[nodiscard]] bool ordered(Point point, StreamId user) const;

  /** @brief The one rule for the host: is `point` known to be complete on the device? */
  [[nodiscard]] bool completed(Point point) const;

  /**
   * @brief Another number whenever more may be ordered or complete than before: after a wait, and
   *        after a completion. While it stays the same, so does every `no` of `ordered` (of points
   *        that lie before markers taken so far) and of `completed`.
   */
  [[nodiscard]] std::uint64_t epoch() const noexcept;

  /**
   * @brief The streams of which more is complete than when `seen` was last given here; a stream may
   *        be named twice. Begin with 0.
   * @param seen     what this returned last time; from now on, now
   * @param streams  they are appended
   * @return false if they are not known (any more): any stream may be one. Nothing is appended then
   */
  [[nodiscard]] bool completed_since(std::uint64_t& seen, std::vector<StreamId>& streams) const;

  /** @brief The serial of the newest published marker; 0: none was yet. */
  [[nodiscard]] std::uint64_t newest_serial() const noexcept;

  /** @brief Published markers that are neither complete nor withdrawn. */
  [[nodiscard]] std::size_t outstanding_markers() const noexcept;

  /** @brief The earliest published marker of the point's stream that covers it, if any. */
  [[nodiscard]] std::optional<WaitableMarker> earliest_covering(Point point) const;

  /** @brief The oldest marker of each stream that has not been seen complete. */
  [[nodiscard]] std::vector<WaitableMarker> oldest_outstanding() const;
  /**
   * @brief The same of up to `most` streams from `slot` on, which is then where to go on; 0 when
   * the last stream has been seen. Appends them.
   */
  void oldest_outstanding(std::uint32_t& slot, std::size_t most,
                          std::vector<WaitableMarker>& oldest) const;

  /**
   * @brief The marker of the stream that is `nth` places behind its oldest outstanding one, or the
   *        last one before number `before` if that is earlier.
   */
  [[nodiscard]] std::optional<WaitableMarker> outstanding(StreamId stream, std::size_t nth,
                                                          Marker before) const;

  /**
   * @brief What the next operation of `stream` is ordered after, as of now: with `completed`, it
   *        covers just the points for which `ordered` holds. To look at, not to join or complete:
   *        it goes up to numbers that are not taken yet.
   */
  [[nodiscard]] Frontier frontier(StreamId stream) const;

  /** @brief What the device is known to have finished. */
  [[nodiscard]] Frontier completed_frontier() const;

  /** @brief Streams that are open or not known to be complete: what the ledger's memory grows by.
   */
  [[nodiscard]] std::size_t tracked_streams() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
