#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "capture/state.hpp"

namespace millrace {

using namespace capture;

void Capture::State::run() {
  std::unique_lock lock{mutex_};
  while (true) {
    while (queue_.empty() && !ending_) changed_->wait(lock);
    if (queue_.empty()) return;
    const Telling next = queue_.front();
    queue_.pop_front();
    busy_ = true;
    setting_.executor.acquired(this);
    lock.unlock();
    try {
      hand_on(next);
    } catch (...) {
      lose(next);
    }
    lock.lock();
    busy_ = false;
    setting_.executor.released(this);
    changed_->notify_all();
  }
}

// Nobody knows what its header says: all that it was to gather may be missing, and is told later.
void Capture::State::lose(const Telling& telling) {
  failed();
  if (!telling.slot) return;
  Slot& slot = slots_[*telling.slot];
  learn(slot.sequence, 1);
  if (!std::exchange(slot.garbled, false)) return return_slot(slot, slot.listed);
  everything();
  set_stage(slot, Slot::Stage::free);
}

void Capture::State::hand_on(const Telling& telling) {
  if (telling.slot) {
    if (bring(slots_[*telling.slot])) return deliver(telling, slots_[*telling.slot]);
    lose(telling);
    if (telling.more) return;
  }
  const std::uint64_t missing = missing_ + (telling.marked - marked_at_header_);
  static_cast<void>(offer(told(telling, missing)));
}

bool Capture::State::bring(Slot& slot) {
  try {
    if (options_.way == CaptureWay::ring) {
      copy_->wait(slot.gathered);
      copy_to_host(slot, *copy_);
    } else if (options_.way == CaptureWay::mapped) {
      ordered_.synchronize(slot.gathered);
    } else if (options_.way == CaptureWay::ring_kernel) {
      ordered_.synchronize(slot.drained);
    }
  } catch (const DeviceError&) {
    slot.unsure = copy_.has_value();
    slot.garbled = options_.way == CaptureWay::ring_kernel;  // nor is it anywhere else any more
    return false;
  }
  slot.garbled = !context_.cost_only() && !rows_.valid(slot.host(), slot.memory().bytes);
  const std::lock_guard lock{mutex_};
  return !slot.garbled && !slot.torn;
}

// How much there is the header says, which so comes first.
void Capture::State::copy_to_host(Slot& slot, StreamRef on) {
  Device& device = context_.device();
  const std::size_t header = rows_.header_bytes();
  const auto* const from = static_cast<const std::byte*>(slot.device.data());
  device.copy(slot.host(), from, header, CopyKind::device_to_host, on.handle());
  ordered_.synchronize(on);
  const std::size_t bytes = std::min<std::size_t>(header_of(slot).bytes, slot.device.size());
  if (bytes <= header) return;
  const Nanoseconds begin = setting_.executor.now();
  device.copy(slot.host() + header, from + header, bytes - header, CopyKind::device_to_host,
              on.handle());
  ordered_.synchronize(on);
  const Nanoseconds end = setting_.executor.now();
  const std::lock_guard lock{mutex_};
  counts_.copied_bytes += bytes - header;
  counts_.copying += end - begin;
}

CaptureHeader Capture::State::header_of(Slot& slot) const {
  if (context_.cost_only()) return slot.expected;
  CaptureHeader header;
  std::memcpy(&header, slot.host(), sizeof(header));
  return header;
}

void Capture::State::deliver(const Telling& telling, Slot& slot) {
  const CaptureHeader header = header_of(slot);
  learn(slot.sequence, header.missing);
  {
    const std::lock_guard lock{mutex_};
    missing_ = header.missing;
    marked_at_header_ = telling.marked;
  }
  const std::byte* at = slot.host();
  const bool copied_out = options_.way == CaptureWay::mapped;
  if (copied_out && !context_.cost_only()) {
    copied_out_.assign(at, at + header.bytes);
    at = copied_out_.data();
  }
  CapturedRows rows = told(telling, header.missing);
  if (context_.cost_only()) {
    rows.modelled_rows = header.rows;
  } else {
    rows_.read(at, source_.tables, rows);
  }
  const std::uint64_t numbers =
      context_.cost_only() ? slot.expected_numbers : rows_.changed_bytes(rows);
  set_stage(slot, copied_out ? Slot::Stage::free : Slot::Stage::shipping);
  const bool taken = offer(rows);
  {
    const std::lock_guard lock{mutex_};
    counts_.link_bytes += header.bytes;
    counts_.overflowed_rows += header.overflowed;
    counts_.skipped_rows += header.skipped;
    if (taken) {
      counts_.rows += header.rows;
      counts_.changed_bytes += numbers;
    }
  }
  if (taken && !copied_out) set_stage(slot, Slot::Stage::free);
  if (taken) return;
  copied_out ? mark_again(rows) : return_slot(slot, header.rows);
}

bool Capture::State::offer(const CapturedRows& rows) {
  try {
    return setting_.receiver.captured(rows);
  } catch (const std::exception&) {
    failed();
    return false;
  }
}

CapturedRows Capture::State::told(const Telling& telling, std::uint64_t missing) const {
  const std::lock_guard lock{mutex_};
  missing += returned_ - telling.returned;
  return {.source = source_.number,
          .step = telling.step,
          .more = telling.more,
          .missing = std::min<std::uint64_t>(missing, rows_.rows()),
          .marks = telling.marks};
}

// What both sides do.

void Capture::State::set_stage(Slot& slot, Slot::Stage stage) {
  const std::lock_guard lock{mutex_};
  slot.stage = stage;
  setting_.executor.released(this);
}

void Capture::State::return_slot(Slot& slot, std::uint64_t rows) {
  const std::lock_guard lock{mutex_};
  slot.stage = Slot::Stage::returning;
  slot.returned = rows;
  returned_ += rows;
  counts_.returned_rows += rows;
  setting_.executor.released(this);
}

void Capture::State::learn(std::uint64_t sequence, std::uint64_t missing) {
  const std::lock_guard lock{mutex_};
  std::uint64_t& at = missing == 0 ? clean_at_ : marked_at_;
  at = std::max(at, sequence);
}

bool Capture::State::dirty() const {
  const std::lock_guard lock{mutex_};
  return !to_mark_.empty() || marked_at_ > clean_at_ ||
         std::ranges::any_of(slots_,
                             [](const Slot& slot) { return slot.stage == Slot::Stage::returning; });
}

CaptureCounts Capture::State::counts() const {
  const std::lock_guard lock{mutex_};
  return counts_;
}

void Capture::State::failed() {
  const std::lock_guard lock{mutex_};
  ++counts_.failures;
}

}  // namespace millrace
