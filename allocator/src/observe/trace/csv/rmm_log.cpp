#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "observe/trace/csv/csv.hpp"
#include "observe/trace/formats.hpp"
#include "observe/trace/log_builder.hpp"
#include "observe/trace/memory_budget.hpp"
#include "observe/trace/value/field.hpp"

// What RMM's logging_resource_adaptor writes (seen in versions from 0.x to 26.08): a header, then
// Thread (decimal), Time (HH:MM:SS.microseconds, no date), Action (allocate, free, allocate
// failure), Pointer (hexadecimal, 0x or not by version; (nil) or 0 for a failure), Size (decimal),
// Stream (hexadecimal, 0x or not: 0 and 1 are the legacy default stream, 2 the per-thread default
// stream of the thread that calls).

namespace millrace::trace {

namespace {

constexpr std::uint64_t kLegacyStream = 1;
constexpr std::uint64_t kPerThreadStream = 2;
constexpr std::uint64_t kBytesOfEvent = 400;  // what is kept of one, at most

class RmmReader {
 public:
  RmmReader(Csv& csv, const std::string& source, std::uint64_t most_memory)
      : csv_{csv},
        rows_left_{most_memory / kBytesOfEvent},
        thread_{csv.column("Thread")},
        time_{csv.column("Time")},
        action_{csv.column("Action")},
        pointer_{csv.column("Pointer")},
        size_{csv.column("Size")},
        stream_{csv.column("Stream")} {
    log_.source = source;
    log_.format = TraceFormat::rmm_log;
  }

  AllocationLog run() {
    for (; csv_.next(); --rows_left_) {
      if (rows_left_ == 0) csv_.fail(MemoryBudget::problem());
      read_row();
    }
    log_.warnings = warnings_.lines();
    return std::move(log_);
  }

 private:
  void read_row() {
    LogEvent event;
    event.position = csv_.line();
    event.bytes = csv_.natural(size_);
    event.stream = read_stream();
    event.time_us = read_time();
    const std::string_view action = csv_[action_];
    if (action == "allocate failure") return fail_to_allocate(event);
    event.address = csv_.hexadecimal(pointer_);
    if (action == "allocate")
      allocate(event);
    else if (action == "free" || action == "deallocate")
      free(event);
    else {
      csv_.fail(fmt::format("Action is {}, should be 'allocate', 'free' or 'allocate failure'",
                            quoted(action)));
    }
  }

  std::uint32_t read_stream() {
    LoggedStream stream{.device = 0, .handle = csv_.hexadecimal(stream_), .thread = 0};
    if (stream.handle == kLegacyStream) stream.handle = 0;
    if (stream.handle == kPerThreadStream) stream.thread = csv_.natural(thread_);
    return builder_.stream(stream);
  }

  void allocate(LogEvent event) {
    if (is_nothing(event)) return;
    if (event.address == 0) csv_.fail("allocates at address 0");
    if (event.bytes > UINT64_MAX - event.address) {
      csv_.fail(fmt::format("{} bytes at {:#x} reach beyond 64 bits", event.bytes, event.address));
    }
    if (const auto other = builder_.find_overlap(0, event.address, event.bytes)) {
      const LoggedBlock& block = log_.blocks[*other];
      csv_.fail(fmt::format(
          "allocates {} bytes at {:#x}, where {} bytes at {:#x} of line {} are still in use",
          event.bytes, event.address, block.bytes, block.address, allocated_at_[*other]));
    }
    freed_at_.erase(event.address);
    event.kind = EventKind::allocate;
    builder_.allocate({.address = event.address,
                       .bytes = event.bytes,
                       .device = 0,
                       .stream = event.stream,
                       .live_at_start = false,
                       .placed = true},
                      event);
    allocated_at_.push_back(event.position);
  }

  void free(LogEvent event) {
    if (is_nothing(event)) return;
    const auto block = builder_.find(0, event.address);
    if (!block) {
      const auto before = freed_at_.find(event.address);
      csv_.fail(before == freed_at_.end()
                    ? fmt::format("frees {:#x}, which no line before allocates", event.address)
                    : fmt::format("frees {:#x} a second time, after line {}", event.address,
                                  before->second));
    }
    if (event.bytes != log_.blocks[*block].bytes) {
      warnings_.add("a free names another size than the allocation, whose size counts",
                    fmt::format("line {}", event.position));
      event.bytes = log_.blocks[*block].bytes;
    }
    freed_at_[event.address] = event.position;
    event.kind = EventKind::free_requested;
    builder_.free(*block, event);
    builder_.forget(*block);
  }

  // Which pointer the row names does not matter: versions differ.
  void fail_to_allocate(LogEvent event) {
    event.kind = EventKind::out_of_memory;
    builder_.add(event);
  }

  // Asking for no bytes gives no memory.
  static bool is_nothing(const LogEvent& event) { return event.bytes == 0 && event.address == 0; }

  // Hours, minutes and seconds of a day; a log that runs past midnight goes on with 24 h and more.
  std::int64_t read_time() {
    constexpr std::int64_t day = std::int64_t{24} * 3600 * 1'000'000;
    constexpr std::int64_t longest_run = 10'000 * day;
    const std::int64_t time = parse_time(csv_[time_]);
    if (time < last_time_ - day / 2 && midnights_ < longest_run) midnights_ += day;
    last_time_ = time;
    return time + midnights_;
  }

  [[nodiscard]] std::int64_t parse_time(std::string_view text) const {
    double seconds = 0;
    std::string_view rest = text;
    for (double part = 0;; seconds *= 60) {
      const auto [end, error] =
          std::from_chars(rest.data(), rest.data() + rest.size(), part, std::chars_format::fixed);
      if (error != std::errc{} || !(part >= 0 && part < 1e11)) break;
      seconds += part;
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
      if (rest.empty() && seconds < 1e11) return std::llround(seconds * 1e6);
      if (!rest.starts_with(':')) break;
      rest.remove_prefix(1);
    }
    csv_.fail(fmt::format("Time is {}, should be as 15:47:02.841961", quoted(text)));
  }

  Csv& csv_;
  std::uint64_t rows_left_;
  std::size_t thread_;
  std::size_t time_;
  std::size_t action_;
  std::size_t pointer_;
  std::size_t size_;
  std::size_t stream_;
  AllocationLog log_;
  LogBuilder builder_{log_};
  Warnings warnings_;
  std::vector<std::uint64_t> allocated_at_;                    // line, by block
  std::unordered_map<std::uint64_t, std::uint64_t> freed_at_;  // line, by address
  std::int64_t last_time_ = 0;                                 // of the line, as it stands
  std::int64_t midnights_ = 0;  // sum of the midnights passed so far, in microseconds
};

}  // namespace

bool is_rmm_log(const Csv& csv) {
  const auto& header = csv.header();
  return std::ranges::find(header, "Action") != header.end() &&
         std::ranges::find(header, "Pointer") != header.end();
}

AllocationLog read_rmm_log(Csv& csv, const std::string& source, std::uint64_t most_memory) {
  return RmmReader{csv, source, most_memory}.run();
}

}  // namespace millrace::trace
