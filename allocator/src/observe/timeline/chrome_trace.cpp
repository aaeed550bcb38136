#include "observe/timeline/chrome_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>

namespace millrace::timeline {
namespace {

// Viewers sort by these numbers, and show a thread as the main thread if its number equals its
// process's.
constexpr unsigned kHostProcess = 1;
constexpr unsigned kFirstDeviceProcess = 2;  // two for each device: streams, engines
constexpr unsigned kFirstThread = 1000;
constexpr std::size_t kWriteAt = std::size_t{1} << 16;

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/** Formats microseconds with three decimals. It is exact, and the same on every machine. */
std::string micros(Nanoseconds time) {
  return fmt::format("{}.{:03}", time.count() / 1000, time.count() % 1000);
}

struct Track {
  unsigned process = 0;
  unsigned thread = 0;
};

class Writer {
 public:
  Writer(std::ostream& out, const Events& events) : out_(out), events_(events) {
    lay_out_streams();
    lay_out_engines();
    for (std::size_t i = 0; i < events_.threads.size(); ++i) {
      threads_.push_back({kHostProcess, next_thread_++});
    }
    first_memory_process_ = kFirstDeviceProcess + 2 * devices();
  }

  void write(const Notes& notes) {
    text_ = "{\"displayTimeUnit\":\"ns\",\n\"otherData\":{\"schema\":\"millrace.timeline/1\"";
    for (const auto& [key, value] : notes) add(",\n{}:{}", json_text(key), json_text(value));
    add(",\n\"events\":{},\"events_left_out\":{}}},\n\"traceEvents\":[", events_.kept(),
        events_.left_out());
    write_names();
    write_operations();
    for (const HostEvent& call : events_.calls) write_call(call);
    for (const Sample& sample : events_.samples) write_sample(sample);
    text_ += "\n]}\n";
    flush();
  }

 private:
  template <typename... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
  }

  void flush() {
    out_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
    text_.clear();
  }

  /** Writes the fields that every event begins with. */
  void begin_event(char phase, Track track) {
    if (text_.size() >= kWriteAt) flush();
    add("{}\n{{\"ph\":\"{}\",\"pid\":{},\"tid\":{}", first_ ? "" : ",", phase, track.process,
        track.thread);
    first_ = false;
  }

  [[nodiscard]] unsigned devices() const {
    unsigned most = 0;
    for (const StreamTrack& stream : events_.streams) most = std::max(most, stream.device + 1);
    return most;
  }

  /** Numbers `tracks` in the order of `key`, process by process. */
  template <typename Tracks, typename Key>
  std::vector<Track> lay_out(const Tracks& tracks, unsigned process_in_device, Key key) {
    std::vector<std::size_t> order(tracks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return key(tracks[a]) < key(tracks[b]); });
    std::vector<Track> laid_out(tracks.size());
    for (const std::size_t i : order) {
      laid_out[i] = {kFirstDeviceProcess + 2 * tracks[i].device + process_in_device,
                     next_thread_++};
    }
    return laid_out;
  }

  void lay_out_streams() {
    streams_ = lay_out(events_.streams, 0, [](const StreamTrack& track) {
      return std::pair{track.device, track.id};
    });
  }

  void lay_out_engines() {
    engines_ = lay_out(events_.engines, 1, [](const EngineTrack& track) {
      return std::tuple{track.device, track.engine, track.lane};
    });
  }

  void name_process(unsigned process, std::string_view name) {
    const Track track{process, process};
    begin_event('M', track);
    add(",\"name\":\"process_name\",\"args\":{{\"name\":{}}}}}", json_text(name));
    begin_event('M', track);
    add(",\"name\":\"process_sort_index\",\"args\":{{\"sort_index\":{}}}}}", process);
  }

  void name_thread(Track track, std::string_view name) {
    begin_event('M', track);
    add(",\"name\":\"thread_name\",\"args\":{{\"name\":{}}}}}", json_text(name));
    begin_event('M', track);
    add(",\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{}}}}}", track.thread);
  }

  [[nodiscard]] std::string device_name(unsigned device) const {
    const auto known = events_.devices.find(device);
    return known == events_.devices.end() ? fmt::format("device {}", device) : known->second;
  }

  void write_names() {
    if (!threads_.empty()) name_process(kHostProcess, "host");
    for (unsigned device = 0; device < devices(); ++device) {
      name_process(kFirstDeviceProcess + 2 * device, device_name(device) + " streams");
      name_process(kFirstDeviceProcess + 2 * device + 1, device_name(device) + " engines");
    }
    for (std::size_t i = 0; i < events_.memories.size(); ++i) {
      name_process(first_memory_process_ + static_cast<unsigned>(i), events_.memories[i].name);
    }
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      name_thread(streams_[i], events_.names[events_.streams[i].name]);
    }
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      const EngineTrack& engine = events_.engines[i];
      const std::string name = to_string(engine.engine);
      name_thread(engines_[i],
                  engine.lane == 0 ? name : fmt::format("{} {}", name, engine.lane + 1));
    }
    for (std::size_t i = 0; i < threads_.size(); ++i) name_thread(threads_[i], events_.threads[i]);
  }

  /** Sorts arrows by one of their ends. A viewer attaches an arrow's end to the slice before it. */
  static std::vector<std::uint32_t> sorted(const std::vector<ArrowEvent>& arrows,
                                           std::uint32_t ArrowEvent::*end) {
    std::vector<std::uint32_t> order(arrows.size());
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return arrows[a].*end < arrows[b].*end;
    });
    return order;
  }

  void write_operations() {
    const std::vector<std::uint32_t> leaving = sorted(events_.arrows, &ArrowEvent::from);
    const std::vector<std::uint32_t> arriving = sorted(events_.arrows, &ArrowEvent::to);
    auto out = leaving.begin();
    auto in = arriving.begin();
    for (std::uint32_t i = 0; i < events_.operations.size(); ++i) {
      const OperationEvent& operation = events_.operations[i];
      const auto first_in = in;
      while (in != arriving.end() && events_.arrows[*in].to == i) ++in;
      write_stand(operation, first_in, in);
      write_operation(operation);
      for (auto arrow = first_in; arrow != in; ++arrow) write_arrow('f', operation, *arrow);
      for (; out != leaving.end() && events_.arrows[*out].from == i; ++out) {
        write_arrow('s', operation, *out);
      }
      write_engine(operation);
    }
  }

  using Arrows = std::vector<std::uint32_t>::const_iterator;

  /** Writes the time in which a stream only waited. */
  void write_stand(const OperationEvent& operation, Arrows first, Arrows last) {
    if (operation.engine != kNoEngine || first == last) return;
    if (operation.stands_since >= operation.begin) return;
    const auto latest = std::max_element(first, last, [&](std::uint32_t a, std::uint32_t b) {
      return source(a).end < source(b).end;
    });
    begin_event('X', streams_[operation.stream]);
    add(",\"cat\":\"standstill\",\"name\":{},\"ts\":{},\"dur\":{}}}",
        json_text("waits for " + events_.names[events_.streams[source(*latest).stream].name]),
        micros(operation.stands_since), micros(operation.begin - operation.stands_since));
  }

  [[nodiscard]] const OperationEvent& source(std::uint32_t arrow) const {
    return events_.operations[events_.arrows[arrow].from];
  }

  void write_operation(const OperationEvent& operation) {
    begin_event('X', streams_[operation.stream]);
    add(",\"cat\":\"{}\",\"name\":{},\"ts\":{},\"dur\":{},\"args\":{{\"index\":{},"
        "\"enqueued_us\":{}",
        operation.engine == kNoEngine ? "order" : "operation",
        json_text(events_.names[operation.name]), micros(operation.begin),
        micros(operation.end - operation.begin), operation.index, micros(operation.enqueued));
    if (operation.alone.count() > 0) add(",\"alone_us\":{}", micros(operation.alone));
    if (operation.bytes > 0) add(",\"bytes\":{}", operation.bytes);
    if (operation.cost.flops > 0) add(",\"cost_flops\":{}", operation.cost.flops);
    if (operation.cost.bytes > 0) add(",\"cost_bytes\":{}", operation.cost.bytes);
    if (operation.cost.host_read > 0) add(",\"cost_host_read\":{}", operation.cost.host_read);
    if (operation.cost.host_written > 0) {
      add(",\"cost_host_written\":{}", operation.cost.host_written);
    }
    if (operation.cost.fixed.count() > 0) add(",\"cost_us\":{}", micros(operation.cost.fixed));
    text_ += "}}";
  }

  void write_arrow(char phase, const OperationEvent& operation, std::uint32_t arrow) {
    begin_event(phase, streams_[operation.stream]);
    add(",\"cat\":\"wait\",\"name\":\"wait\",\"id\":{},\"ts\":{}{}}}", arrow + 1,
        micros(operation.begin), phase == 'f' ? ",\"bp\":\"e\"" : "");
  }

  void write_engine(const OperationEvent& operation) {
    if (operation.engine == kNoEngine) return;
    begin_event('X', engines_[operation.engine]);
    add(",\"cat\":\"engine\",\"name\":{},\"ts\":{},\"dur\":{},\"args\":{{\"index\":{},"
        "\"stream\":{}}}}}",
        json_text(events_.names[operation.name]), micros(operation.begin),
        micros(operation.end - operation.begin), operation.index,
        json_text(events_.names[events_.streams[operation.stream].name]));
  }

  void write_call(const HostEvent& call) {
    begin_event('X', threads_[call.thread]);
    add(",\"cat\":\"host\",\"name\":\"{}\",\"ts\":{},\"dur\":{}}}", to_string(call.call),
        micros(call.begin), micros(call.end - call.begin));
  }

  void write_sample(const Sample& sample) {
    const unsigned process = first_memory_process_ + sample.memory;
    const auto counter = [&](const char* name, std::size_t bytes) {
      begin_event('C', {process, process});
      add(",\"name\":\"{}\",\"ts\":{},\"args\":{{\"bytes\":{}}}}}", name, micros(sample.when),
          bytes);
    };
    counter("reserved", sample.reserved);
    counter("active", sample.active);
    if (events_.memories[sample.memory].knows_stranded) counter("stranded", sample.stranded);
  }

  std::ostream& out_;
  const Events& events_;
  std::string text_;
  bool first_ = true;
  unsigned next_thread_ = kFirstThread;
  unsigned first_memory_process_ = 0;
  std::vector<Track> streams_, engines_, threads_;
};

}  // namespace

void write_chrome_trace(std::ostream& out, const Events& events, const Notes& notes) {
  Writer{out, events}.write(notes);
}

}  // namespace millrace::timeline
