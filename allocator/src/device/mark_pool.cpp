#include "device/mark_pool.hpp"

#include <mutex>
#include <utility>

namespace millrace {
namespace {

// Mark::use: number of the use in the upper half, number of holders in the lower half.
constexpr unsigned kUseShift = 32;
constexpr std::uint64_t kHolders = (std::uint64_t{1} << kUseShift) - 1;

}  // namespace

MarkPool::~MarkPool() {
  for (std::uint32_t i = 0; i < marks_.size(); ++i) {
    if (marks_[i].own == EventHandle{}) continue;
    try {
      device_.destroy_event(marks_[i].own);
    } catch (const DeviceError&) {  // the device is lost or going away: nothing is left to free
      return;
    }
  }
}

Event MarkPool::take() {
  Mark& mark = take_from(free_);
  try {
    if (mark.own == EventHandle{}) mark.own = device_.create_event();
  } catch (...) {
    give(mark);
    throw;
  }
  mark.event = mark.own;
  begin_use(mark);
  return Event{&mark};
}

Event MarkPool::take(EventHandle callers) {
  Mark& mark = take_from(free_bare_);
  mark.event = callers;
  begin_use(mark);
  return Event{&mark};
}

// Only this thread writes it: the former use has no holder any more.
void MarkPool::begin_use(Mark& mark) noexcept {
  const std::uint64_t use = mark.use.load(std::memory_order_relaxed) >> kUseShift;
  mark.use.store((use + 1) << kUseShift | 1, std::memory_order_release);
}

Mark& MarkPool::take_from(std::vector<Mark*>& free) {
  const std::lock_guard held{lock_};
  ++holders_;
  if (!free.empty()) {
    Mark& mark = *free.back();
    free.pop_back();
    return mark;
  }
  const std::uint32_t index = marks_.add();
  // Reserves memory now, so that returning an event cannot fail.
  for (auto* list : {&free_, &free_bare_}) {
    if (list->capacity() < marks_.size()) list->reserve(2 * std::size_t{marks_.size()});
  }
  Mark& mark = marks_[index];
  mark.pool = this;
  mark.index = index;
  return mark;
}

void MarkPool::give(Mark& mark) noexcept {
  bool is_last = false;
  {
    const std::lock_guard held{lock_};
    (mark.own == EventHandle{} ? free_bare_ : free_).push_back(&mark);
    is_last = --holders_ == 0;
  }
  if (is_last) delete this;
}

void MarkPool::leave() noexcept {
  bool is_last = false;
  {
    const std::lock_guard held{lock_};
    is_last = --holders_ == 0;
  }
  if (is_last) delete this;
}

MarkerToken MarkPool::token(const Event& event) noexcept {
  const Mark& mark = *event.mark_;
  return (mark.use.load(std::memory_order_relaxed) & ~kHolders) | mark.index;
}

EventHandle MarkPool::own_event(MarkerToken token) const noexcept {
  return marks_[static_cast<std::uint32_t>(token & kHolders)].own;
}

void MarkPool::release(MarkerToken token) noexcept {
  drop_holder(marks_[static_cast<std::uint32_t>(token & kHolders)]);
}

// Adds a holder only if the token's use still has one: after its last holder, the mark may already
// serve another use.
Event MarkPool::find(MarkerToken token) const noexcept {
  Mark& mark = marks_[static_cast<std::uint32_t>(token & kHolders)];
  std::uint64_t use = mark.use.load();
  while ((use & ~kHolders) == (token & ~kHolders) && (use & kHolders) != 0) {
    if (mark.use.compare_exchange_weak(use, use + 1)) return Event{&mark};
  }
  return {};
}

void MarkPool::add_holder(Mark& mark) noexcept { mark.use.fetch_add(1, std::memory_order_relaxed); }

void MarkPool::drop_holder(Mark& mark) noexcept {
  const std::uint64_t use = mark.use.fetch_sub(1, std::memory_order_acq_rel);
  if ((use & kHolders) == 1) mark.pool->give(mark);
}

Event::Event(const Event& other) noexcept : mark_(other.mark_) {
  if (mark_ != nullptr) MarkPool::add_holder(*mark_);
}

Event::Event(Event&& other) noexcept : mark_(std::exchange(other.mark_, nullptr)) {}

Event& Event::operator=(Event other) noexcept {
  std::swap(mark_, other.mark_);
  return *this;
}

Event::~Event() {
  if (mark_ != nullptr) MarkPool::drop_holder(*mark_);
}

Point Event::point() const noexcept { return mark_ == nullptr ? Point{} : mark_->point; }

}  // namespace millrace
