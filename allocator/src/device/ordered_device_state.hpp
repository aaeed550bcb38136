#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "device/mark_pool.hpp"
#include "device/marker_search.hpp"
#include "device/owed_marks.hpp"
#include "device/stream_table.hpp"
#include "millrace/device/mutex.hpp"
#include "millrace/device/ordered_device.hpp"
#include "millrace/ordering/adaptive_mutex.hpp"

namespace millrace {

struct OrderedDevice::State {
  State(Device& d, Completion c)
      : device(d),
        completion(c),
        per_thread(d.per_thread_stream()),
        pool(new MarkPool{d}),
        streams(ledger, per_thread) {}
  ~State() {
    release(ledger.complete(ledger.begin_synchronize()));
    pool->leave();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Device& device;
  const Completion completion;
  const StreamHandle per_thread;  // means another stream on each thread
  Ledger ledger;
  MarkPool* pool;  // lives until callers have released their marks
  StreamTable streams;
  OwedMarks owed;
  std::atomic<std::uint64_t> marks{0};

  std::atomic<std::size_t> captures{0};  // number of captured streams

  // The legacy stream lives as long as its device and cannot be captured, so one query of the
  // driver is enough. But an attachment can end, and its id with it. After the first attachment,
  // each call queries the driver.
  std::atomic<StreamId> legacy{};
  std::atomic<bool> legacy_attached{false};

  AdaptiveMutex mutex;  // guards all members below; never held across a driver call
  struct Captured {
    StreamId stream;
    unsigned times = 0;
  };
  std::unordered_map<void*, Captured> captured_handles;
  /** An event that a caller created. */
  struct ForeignEvent {
    Mutex recording;  // held while it is recorded: two records in a row have an order then
    Event newest;     // its newest record, under `mutex`; unrecorded while it is being recorded
  };
  std::unordered_map<void*, std::shared_ptr<ForeignEvent>> foreign;
  std::uint32_t next_tended = 0;  // the slot of the ledger at which `ask_some` continues

  void release(const std::vector<MarkerToken>& tokens) const noexcept {
    for (const MarkerToken token : tokens) pool->release(token);
  }
  /**
   * Returns whether the driver's call about `mark`, which has ended, was about this record of its
   * event. A caller's event may have been recorded again meanwhile, perhaps before that call.
   */
  [[nodiscard]] bool still_recorded(const Event& mark) const;
  void complete(Point marker);
  void complete(const Frontier& frontier) { release(ledger.complete(frontier)); }
  /**
   * Returns whether the point is complete, and reports to observers that the caller relies on it.
   * (Another thread may have seen the completion.)
   */
  bool learn_complete(Point point) const;

  void refuse_other_threads(StreamRef stream) const;
  /**
   * Throws if the driver gave the handle of a known raw stream, whose reference the caller kept, to
   * another stream.
   */
  void refuse_reused_handle(StreamRef stream);
  /**
   * Records the marker that other streams want of a raw stream, in a call that was given the
   * stream.
   */
  void record_wanted(StreamRef stream);
  /** Records a marker. Sets `*kept`, unless it is null, to an event that holds it. */
  Point record_mark(StreamRef stream, Event* kept = nullptr);
  /** @brief Whether to ask the driver for a capture that was not announced. */
  enum class Untold : bool { not_asked, asked };
  /**
   * Does the same as `record_mark`, but returns marker 0 if the stream was detached or is captured.
   * If it throws, `*kept` may be set.
   */
  Point record_if_there(StreamRef stream, Event* kept = nullptr,
                        Untold captures = Untold::not_asked);
  /** Records `mark`, which the ledger then holds. The caller holds `known.recording`. */
  Point record_held(KnownStream& known, StreamRef stream, Event mark);
  /**
   * Returns the earliest mark that covers `point`, and records one if none exists. Returns an
   * unrecorded event if that is not possible, or if the point is complete.
   */
  Event covering_mark(Point point);
  /** Returns the newest record of a caller's event; an unrecorded event if it has none. */
  Event newest_record(EventHandle event);
  /** Later waits must not use this record of a caller's event. */
  void withdraw(const Event& record);
  void pay_owed_marks();
  [[nodiscard]] bool captured(StreamId stream) const noexcept {
    const KnownStream* const known = streams.find(stream);
    return known != nullptr && known->captured != 0;
  }
  /** Returns whether the stream is captured. If so, `end_capture` records the mark. */
  bool owe_after_capture(KnownStream& known);

  [[nodiscard]] bool polls() const noexcept { return completion == Completion::polled; }
  [[nodiscard]] bool has_many_markers() const noexcept;
  /** Queries markers of a few streams in turn, in every few calls. */
  void ask_some();
  /**
   * Queries a marker that the ledger listed as one of its own stream. Returns whether it is
   * complete now.
   */
  bool ask(const WaitableMarker& marker);
  /** Does the same for any marker. Holds its mark meanwhile. */
  bool ask_holding(const WaitableMarker& marker);
  /**
   * Searches in rounds with one query for each stream, because a completion that one stream's query
   * finds may save queries of other streams.
   */
  void search(const std::vector<WaitableMarker>& oldest, std::vector<MarkerSearch>& searches);
  void search(const std::vector<WaitableMarker>& oldest) {
    std::vector<MarkerSearch> searches;
    search(oldest, searches);
  }
  /** @param first  the first marker to query */
  void search(MarkerSearch search, std::optional<WaitableMarker> first);
};

}  // namespace millrace
