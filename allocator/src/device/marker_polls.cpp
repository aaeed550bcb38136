// Queries of the device: which markers are complete.

#include <atomic>
#include <mutex>
#include <vector>

#include "device/ordered_device_state.hpp"
#include "device/thread_lists.hpp"

namespace millrace {

namespace {

// Number of markers in flight above which marks also poll; every how many marks; for how many
// streams.
constexpr std::size_t kTendedBeyond = 256;
constexpr std::uint64_t kMarksPerRound = 16;
constexpr std::size_t kStreamsPerRound = 32;

}  // namespace

bool OrderedDevice::State::has_many_markers() const noexcept {
  return polls() && ledger.outstanding_markers() >= kTendedBeyond;
}

bool OrderedDevice::State::ask_holding(const WaitableMarker& marker) {
  const Event mark = pool->find(marker.token);
  if (!mark.recorded()) return true;  // another thread saw it complete, or the event is forgotten
  if (!device.query(mark.mark_->event) || !still_recorded(mark)) return false;
  complete(mark.point());
  return true;
}

// An event of the pool can always be queried. If another thread sees the marker complete before the
// query, the event may be recorded again. The answer is then about the later record.
bool OrderedDevice::State::ask(const WaitableMarker& marker) {
  const EventHandle own = pool->own_event(marker.token);
  if (own == EventHandle{}) [[unlikely]]
    return ask_holding(marker);
  if (!device.query(own)) return ledger.completed(marker.point);
  complete(marker.point);
  return true;
}

void OrderedDevice::State::search(const std::vector<WaitableMarker>& oldest,
                                  std::vector<MarkerSearch>& searches) {
  if (oldest.size() == 1) {  // the usual case needs no list, and is often over after one query
    const WaitableMarker& marker = oldest.front();
    if (!ask(marker) || ledger.outstanding_markers() == 0) return;
    MarkerSearch rest{marker.point.stream};
    rest.answered(marker.point.marker, true);
    return search(rest, rest.next(ledger));
  }
  // Usually few of the oldest markers are complete, and the search of the other streams is over.
  searches.clear();
  for (const WaitableMarker& marker : oldest) {
    if (!ask(marker)) continue;
    searches.emplace_back(marker.point.stream).answered(marker.point.marker, true);
  }
  while (!searches.empty()) {
    std::erase_if(searches, [&](MarkerSearch& search) {
      const auto marker = search.next(ledger);
      if (marker) search.answered(marker->point.marker, ask(*marker));
      return !marker;
    });
  }
}

void OrderedDevice::State::search(MarkerSearch search, std::optional<WaitableMarker> first) {
  for (auto marker = first; marker; marker = search.next(ledger)) {
    search.answered(marker->point.marker, ask(*marker));
    if (ledger.outstanding_markers() == 0) return;  // this check takes no lock
  }
}

void OrderedDevice::State::ask_some() {
  if (marks.fetch_add(1, std::memory_order_relaxed) % kMarksPerRound != 0) return;
  std::vector<WaitableMarker> oldest;
  {
    const std::lock_guard lock{mutex};
    ledger.oldest_outstanding(next_tended, kStreamsPerRound, oldest);
    if (oldest.empty()) ledger.oldest_outstanding(next_tended, kStreamsPerRound, oldest);
  }
  search(oldest);
}

// Polls from time to time in `mark`: otherwise markers of streams that are never polled accumulate.
void OrderedDevice::tend() {
  if (!state_->has_many_markers()) return;
  state_->pay_owed_marks();
  state_->ask_some();
}

void OrderedDevice::poll() {
  state_->pay_owed_marks();
  if (!state_->polls() || state_->ledger.outstanding_markers() == 0) return;
  ThreadLists* const lists = ThreadLists::of_this_thread();
  if (lists == nullptr) return state_->search(state_->ledger.oldest_outstanding());
  // A query may run host work that polls as well. That poll makes its own lists.
  if (lists->polls) return state_->search(state_->ledger.oldest_outstanding());
  const ThreadLists::Poll poll{*lists};
  lists->oldest.clear();
  std::uint32_t slot = 0;
  state_->ledger.oldest_outstanding(slot, ~std::size_t{0}, lists->oldest);
  state_->search(lists->oldest, lists->searches);
}

void OrderedDevice::poll(StreamId stream) {
  state_->pay_owed_marks();
  if (!state_->polls()) return;
  const MarkerSearch search{stream};
  state_->search(search, search.next(state_->ledger));
}

bool OrderedDevice::poll(Point point) {
  state_->pay_owed_marks();
  if (state_->learn_complete(point)) return true;
  const auto marker = state_->ledger.earliest_covering(point);
  if (marker && state_->polls()) state_->ask_holding(*marker);
  return state_->learn_complete(point);
}

}  // namespace millrace
