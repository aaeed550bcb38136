#include "observe/trace/millrace/named_records.hpp"

#include <algorithm>
#include <utility>

namespace millrace::trace {
namespace {

constexpr std::uint64_t kTraceDevices = 64;

}  // namespace

std::uint32_t NamedRecords::device() {
  const auto device = static_cast<std::uint32_t>(fields_.number(kTraceDevices - 1, "a device"));
  device_count_ = std::max(device_count_, device + 1);
  return device;
}

void NamedRecords::read_device() {
  const std::uint32_t number = device();
  log_.device_memory.resize(std::max<std::size_t>(log_.device_memory.size(), number + 1));
  log_.device_memory[number] = fields_.number(kTraceAddresses, "bytes");
  if (fields_.empty()) return;
  static_cast<void>(fields_.text());  // its name
  if (fields_.empty()) return;        // a trace of an earlier Millrace
  const std::uint64_t flags = fields_.number(kAnyNumber, "flags");
  log_.times_are_positions = log_.times_are_positions || (flags & kTimesArePositions) != 0;
  log_.addresses_are_made_up = log_.addresses_are_made_up || (flags & kAddressesAreMadeUp) != 0;
}

void NamedRecords::read_stream() {
  LoggedStream stream;
  stream.device = device();
  const std::uint64_t flags = fields_.number(kAnyNumber, "flags");
  stream.legacy = (flags & kLegacy) != 0;
  stream.blocking = (flags & kBlocking) != 0;
  stream.for_all = (flags & kForAll) != 0;
  stream.handle = fields_.number(kAnyNumber, "a handle");
  stream.thread = fields_.number(kAnyNumber, "a thread");
  stream.name = fields_.text();
  streams_.push_back(static_cast<std::uint32_t>(log_.streams.size()));
  log_.streams.push_back(std::move(stream));
  last_marker_.resize(log_.streams.size());
}

void NamedRecords::read_frame() {
  StackFrame frame;
  frame.line = fields_.number(kAnyNumber, "a line");
  frame.file = fields_.text();
  frame.function = fields_.text();
  frames_.push_back(log_.stacks.frame(frame));
}

void NamedRecords::read_stack() {
  const std::uint64_t outer = fields_.number(stacks_.size(), "a stack");
  const StackTable::FrameId frame = fields_.at(frames_, "a frame");
  stacks_.push_back(log_.stacks.push(outer == 0 ? StackTable::kNone : stacks_[outer - 1], frame));
}

void NamedRecords::read_label() { labels_.push_back(log_.labels.add(fields_.text())); }

std::uint64_t NamedRecords::next_marker(std::uint32_t stream) {
  std::uint64_t& last = last_marker_[stream];
  return last += fields_.number(kTraceLatest - last, "the marker's number");
}

std::uint64_t NamedRecords::marker(std::uint32_t stream) {
  const std::uint64_t last = last_marker_[stream];
  const std::uint64_t back = fields_.number(kAnyNumber, "a marker");
  if (back >= last) fields_.fail("names a marker that its stream does not have");
  return last - back;
}

// The file numbers streams itself. One that is added here has a number in the log, and none in the
// file: later records cannot name it.
std::uint32_t NamedRecords::first_stream(std::uint32_t device) {
  const auto [known, fresh] = first_stream_.try_emplace(device, 0U);
  if (!fresh) return known->second;
  const auto found = std::ranges::find(log_.streams, device, &LoggedStream::device);
  known->second = static_cast<std::uint32_t>(found - log_.streams.begin());
  if (found == log_.streams.end()) {
    log_.streams.push_back({.device = device});
    last_marker_.resize(log_.streams.size());
  }
  return known->second;
}

}  // namespace millrace::trace
