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
 * Dropping it unpublished (the call failed) is fine: its numbers are skipped.
 */
struct PendingRecord {
  Point point;
  Frontier before;             ///< what the recording stream was ordered after, when it began
  std::vector<Point> implied;  ///< between the legacy and blocking streams: what it stands for

  /** @brief All that is complete once the marker is: what a waiter joins. */
  [[nodiscard]] Frontier snapshot() const;
};

/** @brief A published marker that has not been seen complete. */
struct WaitableMarker {
  Point point;
  MarkerToken token = 0;
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
 * calls out. `next`, `completed`, and `ordered` where the stream itself or the device's progress
 * answers it, take no lock.
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

  /**
   * @brief Takes the next number. Points read from now on lie beyond this marker.
   * @throws std::invalid_argument if the stream is not open
   */
  [[nodiscard]] PendingRecord begin_record(StreamId stream);

  /** @brief The call succeeded; `token` is what a waiter uses. */
  void publish_record(PendingRecord record, MarkerToken token);

  /**
   * @brief `token` no longer stands for this marker (its event was recorded again). Those who
   *        waited before keep what they got, and may still join or complete it.
   */
  void withdraw(Point marker);

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

  /** @brief The one rule for work: is `point` before the next operation of `user`? */
  [[nodiscard]] bool ordered(Point point, StreamId user) const;

  /** @brief The one rule for the host: is `point` known to be complete on the device? */
  [[nodiscard]] bool completed(Point point) const;

  /** @brief The earliest published marker of the point's stream that covers it, if any. */
  [[nodiscard]] std::optional<WaitableMarker> earliest_covering(Point point) const;

  /** @brief The oldest marker of each stream that has not been seen complete. */
  [[nodiscard]] std::vector<WaitableMarker> oldest_outstanding() const;

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
