#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "millrace/observe/trace/parse_error.hpp"
#include "millrace/observe/trace/warnings.hpp"
#include "observe/trace/formats.hpp"
#include "observe/trace/log_builder.hpp"
#include "observe/trace/memory_budget.hpp"
#include "observe/trace/millrace/named_records.hpp"
#include "observe/trace/millrace/new_segments.hpp"
#include "observe/trace/millrace/record_counts.hpp"
#include "observe/trace/millrace/record_cursor.hpp"
#include "observe/trace/millrace/record_fields.hpp"
#include "observe/trace/millrace/records.hpp"

// The format is defined in docs/record.md. A file without its last record is whole up to there.

namespace millrace::trace {
namespace {

/** Makes the log of a trace: which block is live, which memory is held, in which order. */
class TraceReader {
 public:
  TraceReader(std::string_view bytes, const std::string& source) : bytes_{bytes}, fields_{source} {
    log_.source = source;
    log_.format = TraceFormat::millrace;
  }

  AllocationLog run(const RecordCounts& counts) {
    log_.blocks.reserve(counts[RecordKind::allocated]);
    log_.events.reserve(counts.events());
    log_.order.reserve(counts.order());
    RecordCursor cursor{bytes_};
    for (RawRecord record; cursor.next(record); ++position_) read(record);
    if (!ended_) {
      warnings_.add("the trace has no last record: the program was ended, or the file had no room",
                    fmt::format("record {}", position_));
    }
    if (counts[RecordKind::reserved] != 0) log_.initial.resize(named_.device_count());
    log_.warnings = warnings_.lines();
    return std::move(log_);
  }

 private:
  enum class Life : std::uint8_t { in_use, freed, completed, lost };

  void read(const RawRecord& record) {
    fields_.begin(record);
    switch (record.kind) {
      case RecordKind::program:
        log_.program = fields_.text();
        return;
      case RecordKind::device:
        return named_.read_device();
      case RecordKind::stream:
        return named_.read_stream();
      case RecordKind::frame:
        return named_.read_frame();
      case RecordKind::stack:
        return named_.read_stack();
      case RecordKind::label:
        return named_.read_label();
      default:
        return read_event(record.kind);
    }
  }

  void read_event(RecordKind kind) {
    switch (kind) {
      case RecordKind::allocated:
        return read_allocated();
      case RecordKind::freed:
        return read_freed();
      case RecordKind::completed:
        return read_completed();
      case RecordKind::failed: {
        LogEvent event = begin_event(EventKind::out_of_memory);
        on_stream(event, named_.stream());
        event.bytes = fields_.number(kAnyNumber, "bytes");
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
        return read_order(kind);
    }
  }

  void read_order(RecordKind kind) {
    switch (kind) {
      case RecordKind::used: {
        time();
        const std::uint32_t index = block();
        return add_order({.kind = OrderKind::used, .stream = named_.stream(), .block = index});
      }
      case RecordKind::marked: {
        time();
        const std::uint32_t of = named_.stream();
        return add_order(
            {.kind = OrderKind::marked, .stream = of, .marker = named_.next_marker(of)});
      }
      case RecordKind::waited: {
        time();
        const std::uint32_t waiter = named_.stream(), of = named_.stream();
        return add_order({.kind = OrderKind::waited,
                          .stream = waiter,
                          .other = of,
                          .marker = named_.marker(of)});
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
            {.kind = OrderKind::passed_device, .stream = named_.first_stream(named_.device())});
      case RecordKind::closed:
        time();
        return add_order({.kind = OrderKind::closed, .stream = named_.stream()});
      case RecordKind::pool_keeps:
        return read_pool(OrderKind::pool_keeps);
      case RecordKind::pool_trimmed:
        return read_pool(OrderKind::pool_trimmed);
      default:
        warnings_.add("records of a kind that this version does not know are passed over",
                      fields_.where());
    }
  }

  void read_passed(OrderKind kind) {
    time();
    LoggedOrder step{.kind = kind, .stream = named_.stream()};
    step.marker = named_.marker(step.stream);
    step.queried = was_queried();
    add_order(step);
  }

  void read_passed_stream(OrderKind kind) {
    time();
    LoggedOrder step{.kind = kind, .stream = named_.stream()};
    step.queried = was_queried();
    add_order(step);
  }

  bool was_queried() {
    if (fields_.empty()) return false;
    return (fields_.number(kAnyNumber, "flags") & kQueried) != 0;
  }

  void read_pool(OrderKind kind) {
    time();
    const std::uint32_t of = named_.first_stream(named_.device());
    add_order({.kind = kind, .stream = of, .bytes = fields_.number(kAnyNumber, "bytes")});
  }

  void read_allocated() {
    LogEvent event = begin_event(EventKind::allocate);
    on_stream(event, named_.stream());
    event.address = fields_.number(kTraceAddresses, "an address");
    event.bytes = fields_.number(kTraceAddresses, "bytes");
    event.stack = named_.stack();
    const LabelTable::Id label = named_.label();
    while (const auto other = builder_.find_overlap(event.device, event.address, event.bytes)) {
      warnings_.add("memory was allocated where an earlier block was in use: a free was not seen",
                    fields_.where());
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
    event.stream = named_.stream();
    if (lives_[index] == Life::lost) return;
    if (lives_[index] != Life::in_use) fields_.fail("frees a block a second time");
    lives_[index] = Life::freed;
    add_free(index, event);
    builder_.forget(index);
  }

  void read_completed() {
    LogEvent event = begin_event(EventKind::free_completed);
    const std::uint32_t index = block();
    event.stream = log_.blocks[index].stream;
    if (lives_[index] == Life::lost) return;
    if (lives_[index] != Life::freed)
      fields_.fail("completes the free of a block that waits for none");
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
    event.device = named_.device();
    event.stream = named_.first_stream(event.device);
    event.address = fields_.number(kTraceAddresses, "an address");
    event.bytes = fields_.number(kTraceAddresses, "bytes");
    std::uint64_t& held = held_[event.device];
    if (kind == EventKind::segment_free && event.bytes > held)
      fields_.fail("gives back more memory than was taken");
    held = kind == EventKind::segment_free ? held - event.bytes : held + event.bytes;
    if (held > kTraceAddresses) fields_.fail("takes more memory than there are addresses");
    builder_.add(event);
    if (kind == EventKind::segment_free) {
      new_segments_.released(event.device, event.address, event.bytes);
    } else {
      new_segments_.acquired();
    }
  }

  void read_reset() {
    LogEvent event = begin_event(EventKind::segment_free);
    event.device = named_.device();
    for (const std::uint32_t index : builder_.live_on(event.device)) lose(index);
    event.stream = named_.first_stream(event.device);
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

  void time() {
    time_ += static_cast<std::int64_t>(fields_.number(
        kTraceLatest - static_cast<std::uint64_t>(time_), "the time since the last event"));
  }

  std::uint32_t block() {
    const std::uint64_t back = fields_.number(kAnyNumber, "a block");
    if (back >= lives_.size())
      fields_.fail(
          fmt::format("names the block {} before the last, and there are {}", back, lives_.size()));
    return static_cast<std::uint32_t>(lives_.size() - 1 - back);
  }

  const std::string_view bytes_;
  AllocationLog log_;
  LogBuilder builder_{log_};
  NewSegments new_segments_{log_.events};
  RecordFields fields_;
  NamedRecords named_{log_, fields_};
  Warnings warnings_;
  std::uint64_t position_ = 0;
  std::int64_t time_ = 0;
  bool ended_ = false;
  std::vector<Life> lives_;                                // by block
  std::unordered_map<std::uint32_t, std::uint64_t> held_;  // bytes, by device
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
