#include "tracking/chunk.hpp"

#include <algorithm>
#include <cstring>

#include "millrace/device/stream.hpp"

namespace millrace {

using namespace capture;

std::size_t ChangeTracker::Chunk::bytes(const SourceRows& rows, const TrackerOptions& options) {
  return std::min(options.chunk_bytes, rows.sure_bytes(rows.rows()));
}

ChangeTracker::Chunk::Chunk(const ChangeTracker& tracker, RowContent content, StreamRef stream)
    : content_(content),
      source_(tracker.source_),
      environment_(tracker.environment_),
      rows_(environment_.context, source_.bags, {content, tracker.options_.skipped_tables}) {
  const std::size_t size = bytes(rows_, tracker.options_);
  Allocator& allocator = environment_.context.allocator();
  Stream& main = environment_.context.main();
  device_ = {allocator, size, main, stream, allocator.tag("tracked rows")};
  host_ = {environment_.pinned, size, main, stream, environment_.pinned.tag("tracked rows")};
  used_on_.push_back(stream.id());
}

// Each read waits for its own work, so another stream may use the buffers at once.
void ChangeTracker::Chunk::use_on(StreamRef stream) {
  const StreamId id = stream.id();
  if (id.valid() && std::ranges::find(used_on_, id) != used_on_.end()) return;
  device_.record_use(stream);
  host_.record_use(stream);
  if (id.valid()) used_on_.push_back(id);
}

CaptureHeader ChangeTracker::Chunk::bring(PickedRows& picked, DirtyRows& changed,
                                          StreamRef stream) {
  use_on(stream);
  picked.locate(source_.bags, stream);
  const GatheredRows rows = picked.gathered(rows_, static_cast<double>(picked.rows.most));
  rows_.gather(rows, {static_cast<std::byte*>(device_.data()), device_.size(), false}, changed,
               environment_.pinned, stream);
  OrderedDevice& ordered = environment_.context.allocator().device();
  Device& device = ordered.device();
  const auto* const from = static_cast<const std::byte*>(device_.data());
  const std::size_t begin = rows_.header_bytes();
  device.copy(host(), from, begin, CopyKind::device_to_host, stream.handle());
  ordered.synchronize(stream);
  CaptureHeader header;
  if (environment_.context.cost_only()) return header;
  std::memcpy(&header, host(), sizeof(header));
  if (header.bytes > begin && header.bytes <= device_.size()) {
    device.copy(host() + begin, from + begin, header.bytes - begin, CopyKind::device_to_host,
                stream.handle());
    ordered.synchronize(stream);
  }
  if (!rows_.valid(host(), device_.size())) {
    throw DeviceError{ErrorCode::unknown, "gather rows",
                      "the copied bytes are not those of a gather"};
  }
  return header;
}

}  // namespace millrace
