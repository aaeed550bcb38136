#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>
#include <utility>

#include "millrace/observe/trace/parse_error.hpp"
#include "millrace/observe/trace/trace_writer.hpp"
#include "millrace/observe/trace/warnings.hpp"
#include "observe/trace/formats.hpp"
#include "observe/trace/log_builder.hpp"
#include "observe/trace/memory_budget.hpp"
#include "observe/trace/millrace/new_segments.hpp"
#include "observe/trace/millrace/records.hpp"

// The format is defined in docs/record.md. A file without its last record is whole up to there.

namespace millrace::trace {
namespace {

constexpr std::uint64_t kTraceAddresses = std::uint64_t{1} << 57;
constexpr std::uint64_t kTraceDevices = 64;
constexpr std::uint64_t kTraceLatest = std::uint64_t{1}
                                       << 62;  // microseconds, and numbers of markers

/** One record: its kind and what it holds. */
struct RawRecord {
  RecordKind kind = RecordKind::nothing;
  std::string_view payload;
  std::size_t begin = 0;  ///< in the file
};

/** Takes the records of a file one by one, up to the first that is not whole. */
class RecordCursor {
 public:
  explicit RecordCursor(std::string_view bytes)
      : bytes_{bytes}, rest_{bytes.substr(std::min(bytes.size(), kTraceMagic.size() + 1))} {}

  bool next(RawRecord& record) {
    std::string_view rest = rest_;
    if (rest.empty() || rest.front() == '\0') return false;
    record.begin = bytes_.size() - rest.size();
    record.kind = static_cast<RecordKind>(rest.front());
    rest.remove_prefix(1);
    const auto length = take_varint(rest);
    if (!length || *length > rest.size()) return false;
    record.payload = rest.substr(0, *length);
    rest.remove_prefix(*length);
    rest_ = rest;
    return true;
  }

 private:
  std::string_view bytes_, rest_;
};

/** How many of each kind there are, by which the memory for them is known before they are read. */
struct RecordCounts {
  explicit RecordCounts(std::string_view bytes) {
    RecordCursor cursor{bytes};
    for (RawRecord record; cursor.next(record);) ++of[static_cast<unsigned char>(record.kind)];
  }
  [[nodiscard]] std::size_t operator[](RecordKind kind) const {
    return of[static_cast<unsigned char>(kind)];
  }

  [[nodiscard]] std::size_t events() const {
    return 2 * (*this)[RecordKind::allocated] + (*this)[RecordKind::freed] +
           (*this)[RecordKind::completed] + (*this)[RecordKind::failed] +
           (*this)[RecordKind::reserved] + (*this)[RecordKind::released] +
           (*this)[RecordKind::device_reset];
  }
  [[nodiscard]] std::size_t order() const {
    std::size_t sum = 0;
    for (auto kind = static_cast<unsigned>(RecordKind::used);
         kind <= static_cast<unsigned>(RecordKind::closed); ++kind)
      sum += of[kind];
    for (const RecordKind kind : {RecordKind::pool_keeps, RecordKind::pool_trimmed,
                                  RecordKind::not_passed, RecordKind::stream_not_passed})
      sum += (*this)[kind];
    return sum;
  }
  [[nodiscard]] std::uint64_t memory() const {
    constexpr std::uint64_t of_live = 96, of_table = 256;
    return (*this)[RecordKind::allocated] * (sizeof(LoggedBlock) + of_live) +
           (*this)[RecordKind::reserved] * of_live + events() * sizeof(LogEvent) +
           order() * sizeof(LoggedOrder) +
           ((*this)[RecordKind::stream] + (*this)[RecordKind::frame] + (*this)[RecordKind::stack] +
            (*this)[RecordKind::label]) *
               of_table;
  }

  std::array<std::size_t, 256> of{};
};

class TraceReader {
 public:
  TraceReader(std::string_view bytes, const std::string& source) : bytes_{bytes}, source_{source} {
    log_.source = source;
    log_.format = TraceFormat::millrace;
  }

  AllocationLog run(const RecordCounts& counts) {
    log_.blocks.reserve(counts[RecordKind::allocated]);
    log_.events.reserve(counts.events());
    log_.order.reserve(counts.order());
    RecordCursor cursor{bytes_};
    for (; cursor.next(record_); ++position_) read();
    if (!ended_) {
      warnings_.add("the trace has no last record: the program was ended, or the file had no room",
                    fmt::format("record {}", position_));
    }
    if (counts[RecordKind::reserved] != 0) log_.initial.resize(device_count_);
    log_.warnings = warnings_.lines();
    return std::move(log_);
  }

 private:
  enum class Life : std::uint8_t { in_use, freed, completed, lost };

  void read() {
    rest_ = record_.payload;
    switch (record_.kind) {
      case RecordKind::program:
        log_.program = text();
        return;
      case RecordKind::device:
        return read_device();
      case RecordKind::stream:
        return read_stream();
      case RecordKind::frame:
        return read_frame();
      case RecordKind::stack:
        return read_stack();
      case RecordKind::label:
        labels_.push_back(log_.labels.add(text()));
        return;
      default:
        return read_event();
    }
  }

  void read_event() {
    switch (record_.kind) {
      case RecordKind::allocated:
        return read_allocated();
      case RecordKind::freed:
        return read_freed();
      case RecordKind::completed:
        return read_completed();
      case RecordKind::failed: {
        LogEvent event = begin_event(EventKind::out_of_memory);
        on_stream(event, stream());
        event.bytes = number(std::numeric_limits<std::uint64_t>::max(), "bytes");
        return builder_.add(event);
      }
      case RecordKind::reserved:
        return read_segment(EventKind::segment_alloc);
      case RecordKind::released:
        return read_segment(EventKind::segment_free);
      case RecordKind::device_reset:
        return read_reset();
      case RecordKind::ended:
        time();
        ended_ = true;
        return;
      default:
        return read_order();
    }
  }

  void read_order() {
    switch (record_.kind) {
      case RecordKind::used: {
        time();
        const std::uint32_t index = block();
        return add_order({.kind = OrderKind::used, .stream = stream(), .block = index});
      }
      case RecordKind::marked: {
        time();
        const std::uint32_t of = stream();
        std::uint64_t& last = last_marker_[of];
        last += number(kTraceLatest - last, "the marker's number");
        return add_order({.kind = OrderKind::marked, .stream = of, .marker = last});
      }
      case RecordKind::waited: {
        time();
        const std::uint32_t waiter = stream(), of = stream();
        return add_order(
            {.kind = OrderKind::waited, .stream = waiter, .other = of, .marker = marker(of)});
      }
      case RecordKind::passed:
        return read_passed(OrderKind::passed);
      case RecordKind::not_passed:
        return read_passed(OrderKind::not_passed);
      case RecordKind::passed_stream:
        return read_passed_stream(OrderKind::passed_stream);
      case RecordKind::stream_not_passed:
        return read_passed_stream(OrderKind::stream_not_passed);
      case RecordKind::passed_device:
        time();
        return add_order(
            {.kind = OrderKind::passed_device, .stream = first_stream(read_device_number())});
      case RecordKind::closed:
        time();
        return add_order({.kind = OrderKind::closed, .stream = stream()});
      case RecordKind::pool_keeps:
        return read_pool(OrderKind::pool_keeps);
      case RecordKind::pool_trimmed:
        return read_pool(OrderKind::pool_trimmed);
      default:
        warnings_.add("records of a kind that this version does not know are passed over", where());
    }
  }

  void read_passed(OrderKind kind) {
    time();
    LoggedOrder step{.kind = kind, .stream = stream()};
    step.marker = marker(step.stream);
    step.queried = was_queried();
    add_order(step);
  }

  void read_passed_stream(OrderKind kind) {
    time();
    LoggedOrder step{.kind = kind, .stream = stream()};
    step.queried = was_queried();
    add_order(step);
  }

  bool was_queried() {
    if (rest_.empty()) return false;
    return (number(std::numeric_limits<std::uint64_t>::max(), "flags") & kQueried) != 0;
  }

  void read_pool(OrderKind kind) {
    time();
    const std::uint32_t of = first_stream(read_device_number());
    add_order({.kind = kind,
               .stream = of,
               .bytes = number(std::numeric_limits<std::uint64_t>::max(), "bytes")});
  }

  void read_device() {
    const std::uint32_t device = read_device_number();
    log_.device_memory.resize(std::max<std::size_t>(log_.device_memory.size(), device + 1));
    log_.device_memory[device] = number(kTraceAddresses, "bytes");
    if (rest_.empty()) return;
    static_cast<void>(text());  // its name
    if (rest_.empty()) return;  // a trace of an earlier Millrace
    const std::uint64_t flags = number(UINT64_MAX, "flags");
    log_.times_are_positions = log_.times_are_positions || (flags & kTimesArePositions) != 0;
    log_.addresses_are_made_up = log_.addresses_are_made_up || (flags & kAddressesAreMadeUp) != 0;
  }

  void read_stream() {
    LoggedStream stream;
    stream.device = read_device_number();
    const std::uint64_t flags = number(UINT64_MAX, "flags");
    stream.legacy = (flags & kLegacy) != 0;
    stream.blocking = (flags & kBlocking) != 0;
    stream.for_all = (flags & kForAll) != 0;
    stream.handle = number(UINT64_MAX, "a handle");
    stream.thread = number(UINT64_MAX, "a thread");
    stream.name = text();
    streams_.push_back(static_cast<std::uint32_t>(log_.streams.size()));
    log_.streams.push_back(std::move(stream));
    last_marker_.resize(log_.streams.size());
  }

  void read_frame() {
    StackFrame frame;
    frame.line = number(UINT64_MAX, "a line");
    frame.file = text();
    frame.function = text();
    frames_.push_back(log_.stacks.frame(frame));
  }

  void read_stack() {
    const std::uint64_t outer = number(stacks_.size(), "a stack");
    const StackTable::FrameId frame = at(frames_, "a frame");
    stacks_.push_back(log_.stacks.push(outer == 0 ? StackTable::kNone : stacks_[outer - 1], frame));
  }

  void read_allocated() {
    LogEvent event = begin_event(EventKind::allocate);
    on_stream(event, stream());
    event.address = number(kTraceAddresses, "an address");
    event.bytes = number(kTraceAddresses, "bytes");
    event.stack = one_based(stacks_, "a stack");
    const LabelTable::Id label = one_based(labels_, "a label");
    while (const auto other = builder_.find_overlap(event.device, event.address, event.bytes)) {
      warnings_.add("memory was allocated where an earlier block was in use: a free was not seen",
                    where());
      lose(*other);
    }
    event.position = log_.events.size();  // after those that were lost
    builder_.allocate({.address = event.address,
                       .bytes = event.bytes,
                       .device = event.device,
                       .stream = event.stream,
                       .stack = event.stack,
                       .label = label},
                      event);
    new_segments_.allocated(event);
    lives_.push_back(Life::in_use);
  }

  void read_freed() {
    LogEvent event = begin_event(EventKind::free_requested);
    const std::uint32_t index = block();
    event.stream = stream();
    if (lives_[index] == Life::lost) return;
    if (lives_[index] != Life::in_use) fail("frees a block a second time");
    lives_[index] = Life::freed;
    add_free(index, event);
    builder_.forget(index);
  }

  void read_completed() {
    LogEvent event = begin_event(EventKind::free_completed);
    const std::uint32_t index = block();
    event.stream = log_.blocks[index].stream;
    if (lives_[index] == Life::lost) return;
    if (lives_[index] != Life::freed) fail("completes the free of a block that waits for none");
    lives_[index] = Life::completed;
    add_free(index, event);
  }

  void add_free(std::uint32_t index, LogEvent event) {
    const LoggedBlock& block = log_.blocks[index];
    event.device = block.device;
    event.address = block.address;
    event.bytes = block.bytes;
    builder_.free(index, event);
  }

  void lose(std::uint32_t index) {
    LogEvent event;
    event.kind = EventKind::free_requested;
    event.stream = log_.blocks[index].stream;
    event.time_us = time_;
    event.position = log_.events.size();
    lives_[index] = Life::lost;
    add_free(index, event);
    builder_.forget(index);
  }

  void read_segment(EventKind kind) {
    LogEvent event = begin_event(kind);
    event.device = read_device_number();
    event.stream = first_stream(event.device);
    event.address = number(kTraceAddresses, "an address");
    event.bytes = number(kTraceAddresses, "bytes");
    std::uint64_t& held = held_[event.device];
    if (kind == EventKind::segment_free && event.bytes > held)
      fail("gives back more memory than was taken");
    held = kind == EventKind::segment_free ? held - event.bytes : held + event.bytes;
    if (held > kTraceAddresses) fail("takes more memory than there are addresses");
    builder_.add(event);
    if (kind == EventKind::segment_free) {
      new_segments_.released(event.device, event.address, event.bytes);
    } else {
      new_segments_.acquired();
    }
  }

  void read_reset() {
    LogEvent event = begin_event(EventKind::segment_free);
    event.device = read_device_number();
    for (const std::uint32_t index : builder_.live_on(event.device)) lose(index);
    event.stream = first_stream(event.device);
    event.bytes = std::exchange(held_[event.device], 0);
    event.position = log_.events.size();
    if (event.bytes != 0) builder_.add(event);
  }

  LogEvent begin_event(EventKind kind) {
    time();
    LogEvent event;
    event.kind = kind;
    event.time_us = time_;
    event.position = log_.events.size();
    return event;
  }

  void on_stream(LogEvent& event, std::uint32_t index) const {
    event.stream = index;
    event.device = log_.streams[index].device;
  }

  void add_order(LoggedOrder order) {
    order.device = log_.streams[order.stream].device;
    order.before = log_.events.size();
    order.time_us = time_;
    log_.order.push_back(order);
  }

  // The fields of a record.

  std::uint64_t number(std::uint64_t most, const char* what) {
    const auto value = take_varint(rest_);
    if (!value) fail(fmt::format("ends before {}", what));
    if (*value > most) fail(fmt::format("{} is {}, at most {} is possible", what, *value, most));
    return *value;
  }

  std::string text() {
    const std::uint64_t length = number(rest_.size(), "the length of a text");
    if (length > rest_.size()) fail("ends in a text");
    std::string text{rest_.substr(0, length)};
    rest_.remove_prefix(length);
    return text;
  }

  void time() {
    time_ += static_cast<std::int64_t>(
        number(kTraceLatest - static_cast<std::uint64_t>(time_), "the time since the last event"));
  }

  std::uint32_t read_device_number() {
    const auto device = static_cast<std::uint32_t>(number(kTraceDevices - 1, "a device"));
    device_count_ = std::max(device_count_, device + 1);
    return device;
  }

  /** An item of a table, by its number from 0. */
  template <typename Table>
  typename Table::value_type at(const Table& table, const char* what) {
    const std::uint64_t index = number(UINT64_MAX, what);
    if (index >= table.size())
      fail(fmt::format("names {} {}, and there are {}", what, index, table.size()));
    return table[index];
  }
  /** The same by its number from 1; 0 is none. */
  template <typename Table>
  typename Table::value_type one_based(const Table& table, const char* what) {
    const std::uint64_t index = number(UINT64_MAX, what);
    if (index == 0) return {};
    if (index > table.size())
      fail(fmt::format("names {} {}, and there are {}", what, index, table.size()));
    return table[index - 1];
  }

  std::uint32_t stream() { return at(streams_, "a stream"); }

  std::uint32_t block() {
    const std::uint64_t back = number(UINT64_MAX, "a block");
    if (back >= lives_.size())
      fail(
          fmt::format("names the block {} before the last, and there are {}", back, lives_.size()));
    return static_cast<std::uint32_t>(lives_.size() - 1 - back);
  }

  std::uint64_t marker(std::uint32_t of) {
    const std::uint64_t last = last_marker_[of];
    const std::uint64_t back = number(UINT64_MAX, "a marker");
    if (back >= last) fail("names a marker that its stream does not have");
    return last - back;
  }

  /** For events of a device that name none. */
  std::uint32_t first_stream(std::uint32_t device) {
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

  [[nodiscard]] std::string where() const { return fmt::format("byte {}", record_.begin); }
  [[noreturn]] void fail(const std::string& problem) const {
    throw ParseError{
        source_, where(),
        fmt::format("the record of kind {} {}", static_cast<int>(record_.kind), problem)};
  }

  const std::string_view bytes_;
  const std::string& source_;
  AllocationLog log_;
  LogBuilder builder_{log_};
  NewSegments new_segments_{log_.events};
  Warnings warnings_;
  RawRecord record_;
  std::string_view rest_;  // of its payload
  std::uint64_t position_ = 0;
  std::int64_t time_ = 0;
  bool ended_ = false;
  std::uint32_t device_count_ = 0;
  std::vector<Life> lives_;                  // by block
  std::vector<std::uint32_t> streams_;       // by the file's number: the log's
  std::vector<std::uint64_t> last_marker_;   // by the log's number of the stream
  std::vector<StackTable::FrameId> frames_;  // by the file's number
  std::vector<StackTable::Id> stacks_;
  std::vector<LabelTable::Id> labels_;
  std::unordered_map<std::uint32_t, std::uint32_t> first_stream_;  // by device
  std::unordered_map<std::uint32_t, std::uint64_t> held_;          // bytes, by device
};

}  // namespace

bool is_millrace_trace(std::string_view bytes) { return bytes.starts_with(kTraceMagic); }

AllocationLog read_millrace_trace(std::string_view bytes, const std::string& source,
                                  std::uint64_t most_memory) {
  if (bytes.size() <= kTraceMagic.size()) {
    throw ParseError{source, fmt::format("byte {}", bytes.size()),
                     "the Millrace trace ends before its version"};
  }
  const char version = bytes[kTraceMagic.size()];
  if (version != kTraceVersion) {
    throw ParseError{
        source, "byte 8",
        fmt::format("is a Millrace trace of version {}; only version {} can be read",
                    static_cast<int>(static_cast<unsigned char>(version)), kTraceVersion + 0)};
  }
  const RecordCounts counts{bytes};
  if (counts.memory() > most_memory) throw ParseError{source, "", MemoryBudget::problem()};
  return TraceReader{bytes, source}.run(counts);
}

}  // namespace millrace::trace
