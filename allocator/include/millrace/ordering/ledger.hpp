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

/** @brief A marker that is being recorded: taken before the call, published after it. */
struct PendingRecord {
  Point point;
  Frontier before;             ///< what the recording stream was ordered after, when it began
  std::vector<Point> implied;  ///< legacy stream: the markers it stands for on blocking streams
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
 *   record  begin_record -> call -> publish_record  (frees that come in between are not covered)
 *   wait    call -> join
 *   query   call -> complete
 * All members may be called from any thread; none calls out. Ids of closed streams stay valid to
 * ask about: closing a stream orders nothing.
 */
class Ledger {
 public:
  Ledger();
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /** @brief A new stream, ordered after nothing. */
  [[nodiscard]] StreamId open(StreamTraits traits = {});

  /**
   * @brief Forgets the stream's own frontier. Its published markers stay waitable.
   * @throws std::invalid_argument if the stream is not open
   */
  void close(StreamId stream);

  [[nodiscard]] bool is_open(StreamId stream) const;
  [[nodiscard]] StreamTraits traits(StreamId stream) const;

  /** @brief The number that the next marker of `stream` will have: what a free there carries. */
  [[nodiscard]] Marker next(StreamId stream) const;

  /** @brief Takes the next number. Points read from now on lie beyond this marker. */
  [[nodiscard]] PendingRecord begin_record(StreamId stream);

  /** @brief The call succeeded; `token` is what a waiter uses. */
  void publish_record(PendingRecord record, MarkerToken token);

  /** @brief `token` no longer stands for this marker (its event was recorded again). */
  void withdraw(Point marker);

  /** @brief `waiter` now waits for the published `marker`: joins what its stream was behind. */
  void join(StreamId waiter, Point marker);

  /** @brief `waiter` is ordered after everything in `frontier` (a snapshot kept by an event). */
  void join(StreamId waiter, const Frontier& frontier);

  /** @brief What a waiter on the published `marker` joins: its snapshot and the marker itself. */
  [[nodiscard]] Frontier snapshot(Point marker) const;

  /**
   * @brief The device is known to have passed `marker`, and so all that it was ordered after.
   * @return the tokens of the markers that nobody needs to wait on any more
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

  [[nodiscard]] Frontier frontier(StreamId stream) const;
  [[nodiscard]] Frontier completed_frontier() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
