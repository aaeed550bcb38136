#include "process/gpu_log.hpp"

namespace millrace::interpose {
namespace {

std::uint64_t value(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

GpuLog::GpuLog(Recorder& recorder, OrderedDevice& order, int ordinal, std::size_t memory_bytes)
    : recorder_(recorder),
      writer_(recorder.writer()),
      order_(order),
      device_(static_cast<std::uint32_t>(ordinal)) {
  writer_.device(device_, memory_bytes, order.device().name());
}

void GpuLog::allocated(const void* address, std::size_t bytes, StreamRef stream) {
  add(address, bytes, stream);
}

void GpuLog::allocated_for_all(const void* address, std::size_t bytes) {
  add(address, bytes, std::nullopt);
}

void GpuLog::add(const void* address, std::size_t bytes, std::optional<StreamRef> stream) {
  const trace::StackTable::Id site = recorder_.site();
  const std::uint32_t of = stream ? number(*stream) : number_for_all();
  const std::lock_guard lock{mutex_};
  settle();
  if (pool_keeps_) writer_.pool_keeps(device_, *std::exchange(pool_keeps_, std::nullopt));
  const std::uint64_t block =
      writer_.allocated({.stream = of, .address = value(address), .bytes = bytes, .stack = site});
  blocks_.insert_or_assign(address, Block{block, stream});
}

void GpuLog::out_of_memory(std::size_t bytes, std::optional<StreamRef> stream) {
  const std::uint32_t of = stream ? number(*stream) : number_for_all();
  const std::lock_guard lock{mutex_};
  settle();
  writer_.failed(of, bytes);
}

std::optional<StreamRef> GpuLog::stream_of(const void* address) {
  const std::lock_guard lock{mutex_};
  const auto it = blocks_.find(address);
  return it == blocks_.end() ? std::nullopt : it->second.stream;
}

std::optional<std::uint64_t> GpuLog::take(const void* address) {
  settle();
  const auto it = blocks_.find(address);
  if (it == blocks_.end()) return std::nullopt;
  const std::uint64_t block = it->second.number;
  blocks_.erase(it);
  return block;
}

std::optional<std::uint64_t> GpuLog::freed(const void* address, StreamRef stream) {
  const std::uint32_t on = number(stream);
  const std::lock_guard lock{mutex_};
  const auto block = take(address);
  if (block) writer_.freed(*block, on);
  return block;
}

std::optional<std::uint64_t> GpuLog::freed_completed(const void* address) {
  const std::uint32_t on = number_for_all();
  const std::lock_guard lock{mutex_};
  const auto block = take(address);
  if (!block) return block;
  writer_.freed(*block, on);
  writer_.completed(*block);
  return block;
}

void GpuLog::not_freed(const void* address, std::size_t bytes, std::optional<StreamRef> stream) {
  add(address, bytes, stream);
}

void GpuLog::await(std::uint64_t block, Point point) {
  const std::lock_guard lock{mutex_};
  const auto [queue, fresh] = queue_of_.try_emplace(point.stream, awaited_.size());
  if (fresh) awaited_.emplace_back();
  awaited_[queue->second].push_back({block, point});
}

Point GpuLog::next_marker(StreamRef stream) const {
  return {stream.id(), order_.ledger().next(stream.id())};
}

// Queues of destroyed streams become empty and stay in the vector. Only the front of each queue is
// checked, because every allocation and free comes here.
void GpuLog::settle() {
  for (auto& queue : awaited_) {
    while (!queue.empty() && order_.ledger().completed(queue.front().point)) {
      writer_.completed(queue.front().block);
      queue.pop_front();
    }
  }
}

std::uint32_t GpuLog::number(StreamRef stream) {
  const std::lock_guard lock{mutex_};
  const auto [known, fresh] = streams_.try_emplace(stream.id(), 0U);
  if (!fresh) return known->second;
  const StreamTraits traits = order_.ledger().traits(stream.id());
  known->second = writer_.stream({.device = device_,
                                  .handle = reinterpret_cast<std::uintptr_t>(stream.handle().value),
                                  .name = order_.name(stream.id()),
                                  .legacy = traits.legacy,
                                  .blocking = traits.blocking});
  return known->second;
}

std::uint32_t GpuLog::number_for_all() {
  const std::lock_guard lock{mutex_};
  if (!for_all_)
    for_all_ = writer_.stream({.device = device_, .name = "cudaMalloc", .for_all = true});
  return *for_all_;
}

std::optional<std::uint32_t> GpuLog::find(StreamId stream) {
  const std::lock_guard lock{mutex_};
  const auto known = streams_.find(stream);
  return known == streams_.end() ? std::nullopt : std::optional{known->second};
}

void GpuLog::marked(StreamRef stream, Point marker) {
  writer_.marked(number(stream), marker.marker);
}

void GpuLog::waited(StreamRef stream, Point marker) {
  const std::uint32_t waiter = number(stream);
  if (const auto other = find(marker.stream)) writer_.waited(waiter, *other, marker.marker);
}

void GpuLog::passed(Point marker, bool queried) {
  if (const auto stream = find(marker.stream)) writer_.passed(*stream, marker.marker, queried);
}

void GpuLog::passed_stream(StreamRef stream, bool queried) {
  writer_.passed_stream(number(stream), queried);
}

void GpuLog::not_passed(Point marker) {
  if (const auto stream = find(marker.stream)) writer_.not_passed(*stream, marker.marker);
}

void GpuLog::stream_not_passed(StreamRef stream) {
  if (const auto known = find(stream.id())) writer_.stream_not_passed(*known);
}

void GpuLog::passed_device() { writer_.passed_device(device_); }

void GpuLog::closed(StreamRef stream) {
  if (const auto known = find(stream.id())) writer_.closed(*known);
}

void GpuLog::reserved(const void* address, std::size_t bytes) {
  writer_.reserved(device_, value(address), bytes);
}

void GpuLog::pool_keeps(std::uint64_t bytes) {
  const std::lock_guard lock{mutex_};
  if (streams_.empty()) {
    pool_keeps_ = bytes;
  } else {
    writer_.pool_keeps(device_, bytes);
  }
}

void GpuLog::pool_trimmed(std::uint64_t bytes) { writer_.pool_trimmed(device_, bytes); }

void GpuLog::released(const void* address, std::size_t bytes) {
  writer_.released(device_, value(address), bytes);
}

}  // namespace millrace::interpose
