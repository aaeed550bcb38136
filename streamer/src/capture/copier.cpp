#include "capture/copier.hpp"

#include <exception>
#include <utility>

namespace millrace::capture {

Copier::Copier(const RowCapture::Source& source, const CaptureEnvironment& environment,
               const CaptureOptions& options, const Parts& parts)
    : source_(source),
      environment_(environment),
      options_(options),
      gatherer_(parts.gatherer),
      streams_(parts.streams),
      shared_(parts.shared) {}

void Copier::handle(const Delivery& delivery) noexcept {
  try {
    deliver(delivery);
  } catch (...) {
    lose(delivery);
  }
}

// The header is unknown: any row of the gather may be missing, so all of them become dirty.
void Copier::lose(const Delivery& delivery) {
  shared_.counters.failed();
  if (!delivery.slot) return;
  Slot& slot = shared_.slots[*delivery.slot];
  shared_.dirty.header_lost(slot.sequence);
  if (!std::exchange(slot.garbled, false)) return shared_.return_slot(slot, slot.listed);
  shared_.return_all();
  shared_.slots.set(slot, Slot::Stage::free);
}

void Copier::deliver(const Delivery& delivery) {
  if (delivery.slot) {
    Slot& slot = shared_.slots[*delivery.slot];
    if (bring(slot)) return deliver_rows(delivery, slot);
    lose(delivery);
    // Another delivery of this step follows and ends the step.
    if (delivery.more) return;
  }
  static_cast<void>(offer(step_of(delivery, shared_.dirty.missing(delivery.dirty))));
}

bool Copier::bring(Slot& slot) {
  try {
    wait_for(slot);
  } catch (const DeviceError&) {
    slot.unsure = streams_.copy() != nullptr;
    // With `ring_kernel` the ids were only in a gather buffer, which is filled again.
    slot.garbled = options_.mode == CaptureMode::ring_kernel;
    return false;
  }
  // Checked before use: after a device error these may be any bytes.
  slot.garbled =
      !gatherer_.cost_only() && !gatherer_.rows().valid(slot.host(), slot.memory().bytes);
  return !slot.garbled && !shared_.slots.torn(slot);
}

void Copier::wait_for(Slot& slot) {
  if (options_.mode == CaptureMode::ring) {
    // The copier uses a stream of its own, so the training thread neither enqueues copies nor waits
    // for them.
    streams_.copy()->wait(slot.gathered);
    const Gatherer::Copied copied = gatherer_.fetch(slot, *streams_.copy());
    shared_.counters.change([&](CaptureCounts& counts) {
      counts.copied_bytes += copied.bytes;
      counts.copying += copied.time;
    });
  } else if (options_.mode == CaptureMode::mapped) {
    streams_.ordered().synchronize(slot.gathered);
  } else if (options_.mode == CaptureMode::ring_kernel) {
    streams_.ordered().synchronize(slot.drained);
  }
}

void Copier::deliver_rows(const Delivery& delivery, Slot& slot) {
  const CaptureHeader header = gatherer_.header(slot);
  shared_.dirty.header_came(slot.sequence, header.missing, delivery.dirty);
  const CapturedRows rows = rows_of(delivery, slot);
  const std::uint64_t values =
      gatherer_.cost_only() ? slot.expected_numbers : gatherer_.rows().changed_bytes(rows);
  // `mapped` has copied the rows out: the slot is free at once, however long the receiver takes.
  shared_.slots.set(slot, copies_out() ? Slot::Stage::free : Slot::Stage::shipping);
  const bool taken = offer(rows);
  shared_.counters.change([&](CaptureCounts& counts) {
    counts.link_bytes += header.bytes;
    counts.overflowed_rows += header.overflowed;
    counts.skipped_rows += header.skipped;
    if (taken) counts.rows += header.rows;
    if (taken) counts.changed_bytes += values;
  });
  // The rows are not lost: they become dirty and come with a later step.
  if (!taken) return return_rows(slot, rows, header.rows);
  if (!copies_out()) shared_.slots.set(slot, Slot::Stage::free);
}

CapturedRows Copier::rows_of(const Delivery& delivery, Slot& slot) {
  const CaptureHeader header = gatherer_.header(slot);
  CapturedRows rows = step_of(delivery, shared_.dirty.missing(delivery.dirty, header.missing));
  if (gatherer_.cost_only()) {
    rows.modeled_rows = header.rows;
    return rows;
  }
  const std::byte* at = slot.host();
  if (copies_out()) {
    copied_out_.assign(at, at + header.bytes);
    at = copied_out_.data();
  }
  gatherer_.rows().read(at, source_.tables, rows);
  return rows;
}

void Copier::return_rows(Slot& slot, const CapturedRows& rows, std::uint64_t count) {
  if (!copies_out()) return shared_.return_slot(slot, count);
  const bool kept = shared_.dirty.return_ids(rows.short_ids, rows.long_ids);
  shared_.counters.change([&](CaptureCounts& counts) {
    counts.returned_rows += rows.size();
    if (!kept) ++counts.everything_marked;
  });
}

bool Copier::offer(const CapturedRows& rows) {
  try {
    return environment_.receiver.captured(rows);
  } catch (const std::exception&) {
    shared_.counters.failed();
    return false;
  }
}

CapturedRows Copier::step_of(const Delivery& delivery, std::uint64_t missing) const {
  return {.source = source_.number,
          .step = delivery.step,
          .more = delivery.more,
          .missing = missing,
          .requests = delivery.dirty.requests};
}

}  // namespace millrace::capture
