#include "observe/replay/trace_device.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace millrace {
namespace {

constexpr std::uint64_t kOwnAddresses = std::uint64_t{1} << 47;  // recorded ones are below
constexpr std::uint64_t kAddressSpace = std::uint64_t{1} << 48;
constexpr std::size_t kMostBytes = std::size_t{1} << 46;
constexpr std::size_t kGranularity = std::size_t{2} << 20;

void* pointer(std::uint64_t value) { return reinterpret_cast<void*>(value); }

}  // namespace

TraceDevice::TraceDevice(std::size_t bytes)
    : bytes_(bytes == 0 ? kMostBytes : std::min(bytes, kMostBytes)) {}

void TraceDevice::expect(std::uint64_t address, std::size_t bytes) {
  expected_.emplace_back(address, bytes);
}

std::size_t TraceDevice::unexpect() {
  expected_range_.reset();
  const std::size_t left = expected_.size();
  expected_.clear();
  return left;
}

void TraceDevice::finish(StreamHandle stream) { finished_.insert(stream.value); }

void TraceDevice::adopt(std::uint64_t address, std::size_t bytes) {
  taken_[address] = bytes;
  used_ += bytes;
}

bool TraceDevice::is_free(std::uint64_t address, std::size_t bytes) const {
  const auto after = taken_.lower_bound(address);
  if (after != taken_.end() && after->first < address + bytes) return false;
  return after == taken_.begin() || std::prev(after)->first + std::prev(after)->second <= address;
}

std::optional<std::uint64_t> TraceDevice::place(std::size_t bytes) {
  const auto wanted = std::ranges::find(expected_, bytes, &decltype(expected_)::value_type::second);
  if (wanted != expected_.end() && is_free(wanted->first, bytes)) {
    const std::uint64_t address = wanted->first;
    expected_.erase(wanted);
    return address;
  }
  const std::uint64_t stretch = (bytes / kGranularity + 2) * kGranularity;  // never adjacent
  if (stretch > kAddressSpace) return std::nullopt;
  while (next_address_ <= kAddressSpace - stretch) {
    const std::uint64_t address = std::exchange(next_address_, next_address_ + stretch);
    if (is_free(address, bytes)) return address;
  }
  return std::nullopt;
}

void* TraceDevice::do_allocate(std::size_t bytes) {
  const bool fits = bytes <= bytes_ - std::min(bytes_, used_);
  const auto address = fits ? place(bytes) : std::nullopt;
  if (!address) {
    throw DeviceError{ErrorCode::out_of_memory, "allocate(" + std::to_string(bytes) + ")",
                      "the replayed device has no more memory"};
  }
  adopt(*address, bytes);
  return pointer(*address);
}

void TraceDevice::do_free(void* address) {
  const auto it = taken_.find(reinterpret_cast<std::uint64_t>(address));
  if (it == taken_.end()) return;
  used_ -= it->second;
  taken_.erase(it);
}

void* TraceDevice::do_reserve_range(std::size_t bytes) {
  const auto base = std::exchange(expected_range_, std::nullopt);
  if (base && !taken_.contains(*base) && ranges_.insert(*base).second) return pointer(*base);
  const auto address = place(bytes);
  if (!address) {
    throw DeviceError{ErrorCode::out_of_memory, "reserve_range(" + std::to_string(bytes) + ")",
                      "the replayed device has no more addresses"};
  }
  taken_[*address] = bytes;
  return pointer(*address);
}

void TraceDevice::do_release_range(void* base, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uint64_t>(base);
  if (ranges_.erase(address) != 0) return;
  const auto it = taken_.find(address);
  if (it != taken_.end() && it->second == bytes) taken_.erase(it);
}

// Recorded ranges may overlap, because a log does not have their ends. Their memory must not
// overlap.
void TraceDevice::do_map(void* address, std::size_t bytes) {
  const auto from = reinterpret_cast<std::uint64_t>(address);
  const bool recorded = from < kOwnAddresses;
  auto after = pages_.lower_bound(from + bytes);
  const bool overlaps = recorded && after != pages_.begin() && std::prev(after)->second > from;
  if (overlaps || bytes > bytes_ - std::min(bytes_, used_)) {
    throw DeviceError{ErrorCode::out_of_memory, "map(" + std::to_string(bytes) + ")",
                      "the replayed device has no more memory"};
  }
  used_ += bytes;
  if (recorded) pages_[from] = from + bytes;
}

void TraceDevice::do_unmap(void* address, std::size_t bytes) {
  used_ -= aliased_.unmap(address, bytes);
  const auto from = reinterpret_cast<std::uint64_t>(address);
  if (from < kOwnAddresses) cut_pages(from, from + bytes);
}

void TraceDevice::cut_pages(std::uint64_t from, std::uint64_t to) {
  for (const std::uint64_t at : {from, to}) {
    const auto after = pages_.lower_bound(at);
    if (after == pages_.begin()) continue;
    const auto before = std::prev(after);
    if (before->second <= at) continue;
    pages_[at] = before->second;
    before->second = at;
  }
  pages_.erase(pages_.lower_bound(from), pages_.lower_bound(to));
}

void TraceDevice::adopt_pages(std::uint64_t address, std::size_t bytes) {
  pages_[address] = address + bytes;
  used_ += bytes;
}

void* TraceDevice::do_allocate_host(std::size_t bytes) { return do_allocate(bytes); }

MemoryInfo TraceDevice::do_memory_info() { return {bytes_ - std::min(bytes_, used_), bytes_}; }

StreamHandle TraceDevice::do_create_stream(const StreamOptions& options) {
  const StreamHandle stream{pointer(next_handle_++)};
  if (options.blocking) blocking_.insert(stream.value);
  return stream;
}

std::uint64_t TraceDevice::do_stream_id(StreamHandle stream) {
  return reinterpret_cast<std::uint64_t>(stream.value);
}

bool TraceDevice::do_query(StreamHandle stream) { return finished_.contains(stream.value); }

EventHandle TraceDevice::do_create_event(bool) {
  const EventHandle event{pointer(next_handle_++)};
  events_[event.value] = {};
  return event;
}

void TraceDevice::do_destroy_event(EventHandle event) { events_.erase(event.value); }

void TraceDevice::do_record(EventHandle event, StreamHandle stream) {
  events_[event.value] = {stream, true};
}

bool TraceDevice::do_query(EventHandle event) {
  const EventState& state = events_[event.value];
  return !state.recorded || finished_.contains(state.stream.value);
}

void TraceDevice::do_callback(StreamHandle, std::function<void()> function, std::uint64_t) {
  function();
}

}  // namespace millrace
