#include "capture/dirty_rows.hpp"

#include <algorithm>
#include <cstring>

#include "capture/cuda/kernels.hpp"
#include "capture/host/kernels.hpp"
#include "millrace/pipeline/kernels/enqueue.hpp"

namespace millrace::capture {

using model::enqueue;
using model::reads;
using model::writes;

DirtyRows::DirtyRows(ModelContext& context, std::size_t rows, IndexType type, std::uint32_t shift)
    : context_(context), shape_{rows, shift}, type_(type) {
  Stream& main = context.main();
  const Tag tag = context.allocator().tag("dirty rows");
  bits_ = {context.allocator(), static_cast<std::size_t>(shape_.words()), main, tag};
  counts_ = {context.allocator(), 1, main, tag};
  Device& device = context.device();
  if (bits_.size() != 0) {
    device.fill(bits_.data(), 0, bits_.size() * sizeof(std::uint32_t), main.handle());
  }
  device.fill(counts_.data(), 0, sizeof(DirtyCounts), main.handle());
}

void DirtyRows::use_on(StreamRef stream) {
  const StreamId id = stream.id();
  if (id == context_.main().id() || std::ranges::find(used_on_, id) != used_on_.end()) return;
  OrderedDevice& ordered = context_.allocator().device();
  // Main has cleared the bits; every other stream waits for that once.
  if (!made_.recorded()) ordered.record(made_, context_.main());
  ordered.wait(stream, made_);
  bits_.buffer().record_use(stream);
  counts_.buffer().record_use(stream);
  if (id.valid()) used_on_.push_back(id);
}

void DirtyRows::mark_dirty(const RowList& list, StreamRef stream) {
  with_key(type_, [&]<typename Key>(Key) {
    const double bytes = static_cast<double>(list.most) * (sizeof(Key) + 2 * sizeof(std::uint32_t));
    enqueue<host::mark_rows<Key>, cuda::mark_rows<Key>>(
        context_, stream, {.name = "mark rows", .bytes = bytes},
        MarkRowsArguments<Key>{.dirty = view(),
                               .rows = reads(static_cast<const Key*>(list.rows), list.most),
                               .count = reads(list.count, 1)});
  });
}

void DirtyRows::mark_dirty(std::span<const std::uint64_t> rows, Allocator& pinned,
                           StreamRef stream) {
  if (rows.empty()) return;
  with_key(type_, [&]<typename Key>(Key) {
    const std::size_t bytes = rows.size() * sizeof(Key);
    // Rows and their count are in one allocation, so that one copy brings both.
    const std::size_t count_at = rounded(bytes, 8);
    const Buffer on_host{pinned, count_at + sizeof(std::uint32_t), stream,
                         pinned.tag("rows to mark")};
    auto* const to = static_cast<std::byte*>(on_host.data());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto row = static_cast<Key>(rows[i]);
      std::memcpy(to + i * sizeof(Key), &row, sizeof(Key));
    }
    const auto count = static_cast<std::uint32_t>(rows.size());
    std::memcpy(to + count_at, &count, sizeof(count));
    const Array<std::byte> list = context_.scratch<std::byte>(on_host.size(), stream);
    context_.device().copy(list.data(), to, on_host.size(), CopyKind::host_to_device,
                           stream.handle());
    mark_dirty(
        {list.data(), reinterpret_cast<const std::uint32_t*>(list.data() + count_at), rows.size()},
        stream);
  });
}

void DirtyRows::mark_dirty(std::uint64_t first, std::uint64_t end, StreamRef stream) {
  if (first == end) return;
  enqueue<host::mark_range, cuda::mark_range>(
      context_, stream,
      {.name = "mark range", .bytes = static_cast<double>((end - first) >> shape_.shift) / 4},
      MarkRangeArguments{.dirty = view(), .first = first, .end = end});
}

DirtyRows::Collected DirtyRows::collect(std::size_t most, StreamRef stream) {
  Collected collected{
      .rows = {context_.allocator(), most * size_of(type_), stream, context_.tags().scratch},
      .count = context_.scratch<std::uint32_t>(1, stream),
      .most = most};
  const Array<std::uint32_t> scratch =
      context_.scratch<std::uint32_t>(collect_scratch(shape_), stream);
  with_key(type_, [&]<typename Key>(Key) {
    enqueue<host::collect_rows<Key>, cuda::collect_rows<Key>>(
        context_, stream,
        {.name = "collect dirty rows",
         .bytes = static_cast<double>(2 * bits_.size() * sizeof(std::uint32_t))},
        CollectRowsArguments<Key>{.rows = writes(static_cast<Key*>(collected.rows.data()), most),
                                  .count = writes(collected.count),
                                  .scratch = writes(scratch),
                                  .dirty = view()});
  });
  return collected;
}

}  // namespace millrace::capture
