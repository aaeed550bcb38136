#include "capture/gatherer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace millrace::capture {
namespace {

std::uint64_t whole(double rows) { return static_cast<std::uint64_t>(std::ceil(rows)); }

}  // namespace

Gatherer::Gatherer(const CaptureEnvironment& environment, CaptureStreams& streams, SourceRows& rows)
    : environment_(environment), streams_(streams), rows_(rows) {}

void Gatherer::make_buffers(std::size_t slot_bytes) {
  Allocator& memory = environment_.context.allocator();
  for (GatherBuffer& buffer : buffers_) {
    buffer.device = {memory, slot_bytes, environment_.context.main(), memory.tag("captured rows")};
  }
}

void Gatherer::gather(Slot& slot, const GatheredRows& rows, const DirtyRows& dirty, StreamRef on) {
  const SlotMemory into = staged() ? next_buffer(on) : slot.memory();
  rows_.gather(rows, into, dirty, environment_.pinned, on);
}

SlotMemory Gatherer::next_buffer(StreamRef on) {
  OrderedDevice& ordered = streams_.ordered();
  buffer_ = (buffer_ + 1) % buffers_.size();
  GatherBuffer& buffer = buffers_[buffer_];
  // The last drain of this buffer may have been enqueued without its event. Then all work of the
  // copy stream counts as reading the buffer.
  if (buffer.unsure) {
    ordered.record(buffer.drained, *streams_.copy());
    buffer.unsure = false;
  }
  if (buffer.drained.recorded()) ordered.wait(on, buffer.drained);
  return buffer.memory();
}

void Gatherer::drain(Slot& slot, const GatheredRows& rows) {
  GatherBuffer& buffer = buffers_[buffer_];
  Stream& copy = *streams_.copy();
  buffer.unsure = slot.unsure = true;  // until an event follows the copy
  copy.wait(slot.gathered);
  rows_.drain(rows, buffer.memory(), slot.memory(), copy);
  streams_.ordered().record(slot.drained, copy);
  buffer.drained = slot.drained;
  buffer.unsure = slot.unsure = false;
}

double Gatherer::expect(Slot& slot, const GatheredRows& rows) const {
  const std::size_t capacity = slot.memory().bytes - rows_.header_bytes();
  const double row =
      rows.rows > 0 ? rows.bytes / rows.rows + static_cast<double>(rows_.id_bytes()) : 1;
  const double all = std::round(rows.rows);
  const double fit = std::min(all, std::floor(static_cast<double>(capacity) / row));
  slot.expected = {.rows = static_cast<std::uint32_t>(fit),
                   .bytes = rows_.header_bytes() + static_cast<std::uint64_t>(fit * row),
                   .overflowed = whole(all - fit)};
  slot.expected_numbers =
      rows.rows > 0 ? static_cast<std::uint64_t>(std::llround(fit * rows.bytes / rows.rows)) : 0;
  return all - fit;
}

Gatherer::Copied Gatherer::fetch(Slot& slot, StreamRef on) {
  Device& device = environment_.context.device();
  const std::size_t begin = rows_.header_bytes();
  const auto* const from = static_cast<const std::byte*>(slot.device.data());
  device.copy(slot.host(), from, begin, CopyKind::device_to_host, on.handle());
  // Only the header says how many bytes follow. The second copy transfers no more than that.
  streams_.ordered().synchronize(on);
  const std::size_t end = std::min<std::size_t>(header(slot).bytes, slot.device.size());
  if (end <= begin) return {};
  const Nanoseconds started = environment_.executor.now();
  device.copy(slot.host() + begin, from + begin, end - begin, CopyKind::device_to_host,
              on.handle());
  streams_.ordered().synchronize(on);
  return {end - begin, environment_.executor.now() - started};
}

CaptureHeader Gatherer::header(Slot& slot) const {
  if (cost_only()) return slot.expected;
  CaptureHeader header;
  std::memcpy(&header, slot.host(), sizeof(header));
  return header;
}

}  // namespace millrace::capture
