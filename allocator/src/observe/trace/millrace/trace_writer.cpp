#include "millrace/observe/trace/trace_writer.hpp"

#include <algorithm>
#include <chrono>

#include "observe/trace/millrace/records.hpp"

namespace millrace::trace {
namespace {

constexpr std::size_t kMostText = 4096;  // of a name, a path, a label
constexpr std::size_t kMostStacks = std::size_t{1} << 16;

void append_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
}

std::int64_t steady_microseconds() {
  using namespace std::chrono;
  return duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

/** The payload of one record, while the writer's lock is held. */
class TraceWriter::Record {
 public:
  Record(TraceWriter& writer, RecordKind kind) : kind(kind), payload_(writer.buffer_) {
    payload_.clear();
  }

  Record& number(std::uint64_t value) {
    append_varint(payload_, value);
    return *this;
  }
  Record& text(std::string_view text) {
    text = text.substr(0, kMostText);
    number(text.size());
    payload_.append(text);
    return *this;
  }
  /** The time since the last event. */
  Record& time(TraceWriter& writer) {
    const std::int64_t now = std::max(writer.clock_(), writer.last_time_);
    number(static_cast<std::uint64_t>(now - writer.last_time_));
    writer.last_time_ = now;
    return *this;
  }

  [[nodiscard]] const std::string& payload() const noexcept { return payload_; }

  const RecordKind kind;

 private:
  std::string& payload_;
};

TraceWriter::TraceWriter(TraceSink& sink, Clock clock)
    : sink_(sink), clock_(clock ? std::move(clock) : steady_microseconds), last_time_(clock_()) {
  std::string header{kTraceMagic};
  header.push_back(kTraceVersion);
  if (!sink_.write(header)) ++left_out_;
}

TraceWriter::~TraceWriter() { finish(); }

void TraceWriter::finish() {
  const std::lock_guard lock{mutex_};
  if (left_out_ == 0) put(Record{*this, RecordKind::ended}.time(*this));
  finished_ = true;
}

void TraceWriter::put(Record& record) {
  if (finished_) return;
  if (left_out_ != 0) {
    ++left_out_;
    return;
  }
  std::string whole;
  whole.push_back(static_cast<char>(record.kind));
  append_varint(whole, record.payload().size());
  whole += record.payload();
  if (!sink_.write(whole)) ++left_out_;
}

void TraceWriter::program(std::string_view text) {
  const std::lock_guard lock{mutex_};
  put(Record{*this, RecordKind::program}.text(text));
}

void TraceWriter::device(std::uint32_t number, std::uint64_t bytes, std::string_view name,
                         RecordedForm form) {
  const std::lock_guard lock{mutex_};
  std::uint64_t flags = 0;
  if (form.times_are_positions) flags |= kTimesArePositions;
  if (form.addresses_are_made_up) flags |= kAddressesAreMadeUp;
  put(Record{*this, RecordKind::device}.number(number).number(bytes).text(name).number(flags));
}

std::uint32_t TraceWriter::stream(const LoggedStream& stream) {
  const std::lock_guard lock{mutex_};
  std::uint64_t flags = 0;
  if (stream.legacy) flags |= kLegacy;
  if (stream.blocking) flags |= kBlocking;
  if (stream.for_all) flags |= kForAll;
  put(Record{*this, RecordKind::stream}
          .number(stream.device)
          .number(flags)
          .number(stream.handle)
          .number(stream.thread)
          .text(stream.name));
  last_marker_.push_back(0);
  return static_cast<std::uint32_t>(last_marker_.size() - 1);
}

StackTable::FrameId TraceWriter::frame(const StackFrame& frame) {
  const std::lock_guard lock{mutex_};
  const std::size_t known = stacks_.frame_count();
  const StackTable::FrameId id = stacks_.frame(frame);
  if (stacks_.frame_count() != known) {
    put(Record{*this, RecordKind::frame}.number(frame.line).text(frame.file).text(frame.function));
  }
  return id;
}

StackTable::Id TraceWriter::stack(StackTable::Id outer, StackTable::FrameId inner) {
  const std::lock_guard lock{mutex_};
  const std::size_t known = stacks_.stack_count();
  if (known >= kMostStacks) return StackTable::kNone;
  const StackTable::Id id = stacks_.push(outer, inner);
  if (stacks_.stack_count() != known) {
    put(Record{*this, RecordKind::stack}.number(outer).number(inner));
  }
  return id;
}

LabelTable::Id TraceWriter::label(std::string_view text) {
  const std::lock_guard lock{mutex_};
  const std::size_t known = labels_.size();
  const LabelTable::Id id = labels_.add(text.substr(0, kMostText));
  if (labels_.size() != known) put(Record{*this, RecordKind::label}.text(text));
  return id;
}

std::uint64_t TraceWriter::allocated(const WrittenAllocation& allocation) {
  const std::lock_guard lock{mutex_};
  put(Record{*this, RecordKind::allocated}
          .time(*this)
          .number(allocation.stream)
          .number(allocation.address)
          .number(allocation.bytes)
          .number(allocation.stack)
          .number(allocation.label));
  return blocks_++;
}

void TraceWriter::freed(std::uint64_t block, std::uint32_t stream) {
  const std::lock_guard lock{mutex_};
  put(Record{*this, RecordKind::freed}.time(*this).number(blocks_ - 1 - block).number(stream));
}

void TraceWriter::completed(std::uint64_t block) {
  const std::lock_guard lock{mutex_};
  put(Record{*this, RecordKind::completed}.time(*this).number(blocks_ - 1 - block));
}

void TraceWriter::failed(std::uint32_t stream, std::uint64_t bytes) {
  const std::lock_guard lock{mutex_};
  put(Record{*this, RecordKind::failed}.time(*this).number(stream).number(bytes));
}

void TraceWriter::used(std::uint64_t block, std::uint32_t stream) {
  const std::lock_guard lock{mutex_};
  put(Record{*this, RecordKind::used}.time(*this).number(blocks_ - 1 - block).number(stream));
}

void TraceWriter::marked(std::uint32_t stream, std::uint64_t marker) {
  const std::lock_guard lock{mutex_};
  std::uint64_t& last = last_marker_.at(stream);
  if (marker <= last) return;
  put(Record{*this, RecordKind::marked}.time(*this).number(stream).number(marker - last));
  last = marker;
}

void TraceWriter::waited(std::uint32_t stream, std::uint32_t other, std::uint64_t marker) {
  const std::lock_guard lock{mutex_};
  const std::uint64_t last = last_marker_.at(other);
  if (marker == 0 || marker > last) return;
  put(Record{*this, RecordKind::waited}.time(*this).number(stream).number(other).number(last -
                                                                                        marker));
}

void TraceWriter::passed(std::uint32_t stream, std::uint64_t marker, bool queried) {
  const std::lock_guard lock{mutex_};
  const std::uint64_t last = last_marker_.at(stream);
  if (marker == 0 || marker > last) return;
  Record record{*this, RecordKind::passed};
  record.time(*this).number(stream).number(last - marker);
  if (queried) record.number(kQueried);
  put(record);
}

void TraceWriter::passed_stream(std::uint32_t stream, bool queried) {
  const std::lock_guard lock{mutex_};
  Record record{*this, RecordKind::passed_stream};
  record.time(*this).number(stream);
  if (queried) record.number(kQueried);
  put(record);
}

void TraceWriter::not_passed(std::uint32_t stream, std::uint64_t marker) {
  const std::lock_guard lock{mutex_};
  const std::uint64_t last = last_marker_.at(stream);
  if (marker == 0 || marker > last) return;
  put(Record{*this, RecordKind::not_passed}.time(*this).number(stream).number(last - marker));
}

void TraceWriter::stream_not_passed(std::uint32_t stream) {
  const std::lock_guard lock{mutex_};
  put(Record{*this, RecordKind::stream_not_passed}.time(*this).number(stream));
}

void TraceWriter::passed_device(std::uint32_t device) {
  const std::lock_guard lock{mutex_};
  put(Record{*this, RecordKind::passed_device}.time(*this).number(device));
}

void TraceWriter::closed(std::uint32_t stream) {
  const std::lock_guard lock{mutex_};
  put(Record{*this, RecordKind::closed}.time(*this).number(stream));
}

void TraceWriter::reserved(std::uint32_t device, std::uint64_t address, std::uint64_t bytes) {
  const std::lock_guard lock{mutex_};
  put(Record{*this, RecordKind::reserved}.time(*this).number(device).number(address).number(bytes));
}

void TraceWriter::released(std::uint32_t device, std::uint64_t address, std::uint64_t bytes) {
  const std::lock_guard lock{mutex_};
  put(Record{*this, RecordKind::released}.time(*this).number(device).number(address).number(bytes));
}

void TraceWriter::pool_keeps(std::uint32_t device, std::uint64_t bytes) {
  const std::lock_guard lock{mutex_};
  put(Record{*this, RecordKind::pool_keeps}.time(*this).number(device).number(bytes));
}

void TraceWriter::pool_trimmed(std::uint32_t device, std::uint64_t bytes) {
  const std::lock_guard lock{mutex_};
  put(Record{*this, RecordKind::pool_trimmed}.time(*this).number(device).number(bytes));
}

void TraceWriter::device_reset(std::uint32_t device) {
  const std::lock_guard lock{mutex_};
  put(Record{*this, RecordKind::device_reset}.time(*this).number(device));
}

std::uint64_t TraceWriter::left_out() const {
  const std::lock_guard lock{mutex_};
  return left_out_;
}

}  // namespace millrace::trace
