// Asking the device which markers are complete.

#include <atomic>
#include <mutex>
#include <vector>

#include "device/marker_search.hpp"
#include "device/ordered_device_state.hpp"

namespace millrace {

namespace {

// Markers in flight beyond which marks also poll; how often; and for how many streams in turn.
constexpr std::size_t kTendedBeyond = 256;
constexpr std::uint64_t kMarksPerRound = 16;
constexpr std::size_t kStreamsPerRound = 32;

}  // namespace

bool OrderedDevice::State::has_many_markers() const noexcept {
  return polls() && ledger.outstanding_markers() >= kTendedBeyond;
}

bool OrderedDevice::State::ask(const WaitableMarker& marker) {
  const Event mark = pool->find(marker.token);
  if (!mark.recorded())
    return true;  // another thread has found that out, or the event is forgotten
  if (!device.query(mark.mark_->event)) return false;
  complete(mark.point());
  return true;
}

void OrderedDevice::State::search(const std::vector<WaitableMarker>& oldest) {
  std::vector<MarkerSearch> searches;
  searches.reserve(oldest.size());
  for (const WaitableMarker& marker : oldest) searches.emplace_back(marker.point.stream);
  while (!searches.empty()) {
    std::erase_if(searches, [&](MarkerSearch& search) {
      const auto marker = search.next(ledger);
      if (marker) search.answered(marker->point.marker, ask(*marker));
      return !marker;
    });
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

// Without this, markers of streams that are never polled would accumulate.
void OrderedDevice::tend() {
  if (!state_->has_many_markers()) return;
  state_->pay_owed_marks();
  state_->ask_some();
}

void OrderedDevice::poll() {
  state_->pay_owed_marks();
  if (!state_->polls() || state_->ledger.outstanding_markers() == 0) return;
  state_->search(state_->ledger.oldest_outstanding());
}

void OrderedDevice::poll(StreamId stream) {
  state_->pay_owed_marks();
  if (!state_->polls()) return;
  MarkerSearch search{stream};
  while (const auto marker = search.next(state_->ledger)) {
    search.answered(marker->point.marker, state_->ask(*marker));
  }
}

bool OrderedDevice::poll(Point point) {
  state_->pay_owed_marks();
  if (state_->learn_complete(point)) return true;
  const auto marker = state_->ledger.earliest_covering(point);
  if (marker && state_->polls()) state_->ask(*marker);
  return state_->learn_complete(point);
}

}  // namespace millrace
