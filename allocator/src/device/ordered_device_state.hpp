#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "device/mark_pool.hpp"
#include "device/marker_search.hpp"
#include "device/owed_marks.hpp"
#include "device/stream_table.hpp"
#include "millrace/device/ordered_device.hpp"

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
  const StreamHandle per_thread;  // on each thread the handle of another stream
  Ledger ledger;
  MarkPool* pool;  // marks that callers hold keep it beyond this
  StreamTable streams;
  OwedMarks owed;
  std::atomic<std::uint64_t> marks{0};

  std::atomic<std::size_t> captures{0};  // streams that are captured

  // The legacy stream lives as long as its device and cannot be captured, so the driver is asked
  // about it once. An attachment ends, and its id with it: after one, each call asks.
  std::atomic<StreamId> legacy{};
  std::atomic<bool> legacy_attached{false};

  std::mutex mutex;  // of everything below; never held across a driver call
  struct Captured {
    StreamId stream;
    unsigned times = 0;
  };
  std::unordered_map<void*, Captured> captured_handles;
  std::unordered_map<void*, Event> foreign;  // callers' own events: the latest recording through us
  std::uint32_t next_tended = 0;             // slot of the ledger

  void release(const std::vector<MarkerToken>& tokens) const noexcept {
    for (const MarkerToken token : tokens) pool->release(token);
  }
  void complete(Point marker);
  void complete(const Frontier& frontier) { release(ledger.complete(frontier)); }
  /** Whether the point is complete. The caller goes by that, and perhaps another thread saw it. */
  bool learn_complete(Point point) const;

  void refuse_other_threads(StreamRef stream) const;
  /** Of a raw stream whose reference was kept: the driver may have given its handle to another. */
  void refuse_reused_handle(StreamRef stream);
  /** The marker that others want of a raw stream, in a call that was given that stream. */
  void record_wanted(StreamRef stream);
  Event record_mark(StreamRef stream);
  /** @brief Captures that the driver alone knows of: whether it is asked for one. */
  enum class Untold : bool { not_asked, asked };
  /** Nothing recorded: the stream has been detached, or is captured. */
  Event record_if_there(StreamRef stream, Untold captures = Untold::not_asked);
  /** While the stream is held. */
  Event record_held(KnownStream& known, StreamRef stream, Event mark);
  /** On the marker that covers `point` earliest; recorded now if need be, or nothing recorded. */
  Event covering_mark(Point point);
  void pay_owed_marks();
  [[nodiscard]] bool captured(StreamId stream) const noexcept {
    const KnownStream* const known = streams.find(stream);
    return known != nullptr && known->captured != 0;
  }
  /** Whether the stream is captured, and the mark is made later. */
  bool owe_after_capture(KnownStream& known);

  [[nodiscard]] bool polls() const noexcept { return completion == Completion::polled; }
  [[nodiscard]] bool has_many_markers() const noexcept;
  /** At every few calls about a few streams, in turn. */
  void ask_some();
  /** Whether the marker was found to be complete now. */
  bool ask(const WaitableMarker& marker);
  /** Round after round, one question a stream: what one stream has passed may spare another's. */
  void search(const std::vector<WaitableMarker>& oldest);
  /** @param first  what `search` asks about first */
  void search(MarkerSearch search, std::optional<WaitableMarker> first);
};

}  // namespace millrace
