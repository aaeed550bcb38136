#include "device/cuda/event_clock.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "device/cuda/error.hpp"

namespace millrace::cuda {
namespace {

constexpr std::int64_t kBaseInterval = std::chrono::nanoseconds{std::chrono::seconds{1}}.count();

Nanoseconds elapsed(cudaEvent_t from, cudaEvent_t to) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime", from, to);
  return Nanoseconds{std::llround(double{milliseconds} * 1e6)};
}

}  // namespace

std::int64_t EventClock::steady_now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

EventClock::EventClock(HostNow now) : now_(now) {
  add_base();
  const cudaEvent_t first = bases_.front().event.get();
  check(cudaEventSynchronize(first), "cudaEventSynchronize", first);
  placed_ = 1;
}

void EventClock::add_base() {
  next_base_.store(now_() + kBaseInterval, std::memory_order_relaxed);
  UniqueEvent event = make_event(cudaEventDefault);
  check(cudaEventRecord(event.get(), stream_.get()), "cudaEventRecord", event.get(), stream_.get());
  bases_.push_back({std::move(event)});
  if (bases_.size() < kMostBases) return;
  place_completed_bases();
  thin_out();
}

// Keeps the newest bases, and spaces out the older ones. Bases without a time stay too: more than a
// few exist only if the device has completed nothing for many minutes.
void EventClock::thin_out() {
  const std::size_t older = std::min(placed_, bases_.size() - kMostBases / 4);
  std::size_t kept = older;
  while (kept > kMostBases / 2) {
    const std::size_t left = std::exchange(kept, 1);
    for (std::size_t i = 1; i < left; ++i) {
      if (bases_[i].time - bases_[kept - 1].time >= spacing_) std::swap(bases_[kept++], bases_[i]);
    }
    if (kept > kMostBases / 2) spacing_ *= 2;
  }
  const auto begin = bases_.begin();
  bases_.erase(begin + static_cast<std::ptrdiff_t>(kept),
               begin + static_cast<std::ptrdiff_t>(older));
  placed_ -= older - kept;
}

void EventClock::tick() {
  if (now_() < next_base_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock{mutex_};
  if (now_() >= next_base_.load(std::memory_order_relaxed)) add_base();
}

void EventClock::place_completed_bases() {
  while (placed_ < bases_.size()) {
    const cudaError_t done = cudaEventQuery(bases_[placed_].event.get());
    if (done == cudaErrorNotReady) return quietly(done);
    check(done, "cudaEventQuery", bases_[placed_].event.get());
    const Base& before = bases_[placed_ - 1];
    bases_[placed_].time = before.time + elapsed(before.event.get(), bases_[placed_].event.get());
    ++placed_;
  }
}

const EventClock::Base& EventClock::nearest(Nanoseconds time) const {
  const auto end = bases_.begin() + static_cast<std::ptrdiff_t>(placed_);
  const auto after = std::lower_bound(
      bases_.begin(), end, time, [](const Base& base, Nanoseconds t) { return base.time < t; });
  if (after == end) return *(end - 1);
  if (after == bases_.begin()) return *after;
  const auto before = after - 1;
  return time - before->time < after->time - time ? *before : *after;
}

Nanoseconds EventClock::time_of(cudaEvent_t event) {
  const std::lock_guard lock{mutex_};
  place_completed_bases();
  const Base& last = bases_[placed_ - 1];
  const Base& base = nearest(last.time + elapsed(last.event.get(), event));
  return base.time + elapsed(base.event.get(), event);
}

}  // namespace millrace::cuda
