#include "millrace/observe/trace/write_snapshot.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "observe/trace/torch/writer_name.hpp"
#include "observe/trace/value/pickle_writer.hpp"

namespace millrace::trace {
namespace {

const char* name_of(BlockState state) {
  switch (state) {
    case BlockState::allocated:
      return "active_allocated";
    case BlockState::pending_free:
      return "active_pending_free";
    case BlockState::inactive:
      break;
  }
  return "inactive";
}

class SnapshotWriter {
 public:
  explicit SnapshotWriter(const TorchSnapshot& snapshot) : snapshot_(snapshot) {}

  std::string run() {
    out_.begin_dict();
    list("segments", snapshot_.segments, [&](const TorchSegment& segment) { write(segment); });
    out_.text("device_traces");
    out_.begin_list();
    for (std::size_t device = 0; device < snapshot_.traces.size(); ++device) {
      out_.item();
      write(snapshot_.traces[device], static_cast<std::int64_t>(device));
    }
    out_.end_list();
    if (!snapshot_.host_segments.empty() || !snapshot_.host_trace.empty()) {
      list("host_segments", snapshot_.host_segments,
           [&](const TorchSegment& segment) { write(segment, kHost); });
      out_.text("host_traces");
      write(snapshot_.host_trace, kHost);
    }
    write_settings();
    list("external_annotations", snapshot_.marks, [&](const TorchMark& mark) { write(mark); });
    if (snapshot_.of_millrace) entry("writer", kMillraceWriter);
    out_.end_dict();
    return out_.finish();
  }

 private:
  static constexpr std::int64_t kHost = -1;  // PyTorch's number for it

  template <typename Items, typename Each>
  void list(std::string_view key, const Items& items, const Each& each) {
    out_.text(key);
    out_.begin_list();
    for (const auto& item : items) {
      out_.item();
      each(item);
    }
    out_.end_list();
  }

  void entry(std::string_view key, std::uint64_t value) {
    out_.text(key);
    out_.natural(value);
  }
  void entry_signed(std::string_view key, std::int64_t value) {
    out_.text(key);
    out_.integer(value);
  }
  void entry(std::string_view key, std::string_view value) {
    out_.text(key);
    out_.text(value);
  }
  void entry(std::string_view key, bool value) {
    out_.text(key);
    out_.boolean(value);
  }

  // Each stack and each frame is in the file once.
  void frames(StackTable::Id stack) {
    out_.text("frames");
    const auto known = stacks_.find(stack);
    if (known != stacks_.end()) return out_.again(known->second);
    out_.begin_list();
    for (const StackTable::FrameId frame : snapshot_.stacks.frames_of(stack)) {
      out_.item();
      write(frame);
    }
    out_.end_list();
    stacks_.emplace(stack, out_.keep());
  }

  void write(StackTable::FrameId id) {
    const auto known = frames_.find(id);
    if (known != frames_.end()) return out_.again(known->second);
    const StackFrame& frame = snapshot_.stacks.at(id);
    out_.begin_dict();
    entry("filename", frame.file);
    entry("line", frame.line);
    entry("name", frame.function);
    out_.end_dict();
    frames_.emplace(id, out_.keep());
  }

  void label(LabelTable::Id label) {
    if (label != LabelTable::kNone) entry("user_metadata", snapshot_.labels.at(label));
  }

  void write(const std::vector<TorchEvent>& trace, std::int64_t device) {
    const bool has_labels = std::ranges::any_of(
        trace, [](const TorchEvent& event) { return event.label != LabelTable::kNone; });
    out_.begin_list();
    for (const TorchEvent& event : trace) {
      if (event.action == TorchAction::other) continue;
      out_.item();
      write(event, device, has_labels);
    }
    out_.end_list();
  }

  void write(const TorchMark& mark) {
    out_.begin_dict();
    entry("name", snapshot_.labels.at(mark.name));
    entry("stage", std::string_view{mark.begins ? "START" : "END"});
    entry("device", std::uint64_t{mark.device});
    entry_signed("time_us", mark.time_us);
    out_.end_dict();
  }

  void write(const TorchSegment& segment) { write(segment, segment.device); }

  void write(const TorchSegment& segment, std::int64_t device) {
    std::uint64_t allocated = 0, active = 0, requested = 0;
    for (const TorchBlock& block : segment.blocks) {
      if (block.state == BlockState::inactive) continue;
      active += block.bytes;
      requested += block.requested;
      if (block.state == BlockState::allocated) allocated += block.bytes;
    }
    out_.begin_dict();
    entry_signed("device", device);
    entry("address", segment.address);
    entry("total_size", segment.bytes);
    entry("allocated_size", allocated);
    entry("active_size", active);
    entry("requested_size", requested);
    entry_signed("stream", segment.stream);
    entry("segment_type", std::string_view{segment.large ? "large" : "small"});
    out_.text("segment_pool_id");
    out_.pair(segment.pool.first, segment.pool.second);
    entry("is_expandable", segment.expandable);
    frames(StackTable::kNone);
    list("blocks", segment.blocks, [&](const TorchBlock& block) { write(block); });
    out_.end_dict();
  }

  void write(const TorchBlock& block) {
    out_.begin_dict();
    entry("address", block.address);
    entry("size", block.bytes);
    entry("requested_size", block.requested);
    entry("state", std::string_view{name_of(block.state)});
    frames(block.stack);
    label(block.label);
    out_.end_dict();
  }

  void write(const TorchEvent& event, std::int64_t device, bool has_labels) {
    out_.begin_dict();
    entry("action", std::string_view{to_string(event.action)});
    if (event.action == TorchAction::out_of_memory) {
      entry("device_free", event.address);
    } else {
      entry("addr", event.address);
    }
    entry("size", event.bytes);
    entry_signed("stream", event.stream);
    entry_signed("time_us", event.time_us);
    entry_signed("device", device);
    if (event.pool) {
      out_.text("pool_id");
      out_.pair(event.pool->first, event.pool->second);
    }
    frames(event.stack);
    label(event.label);
    // By its category the viewer chooses a color, and it needs one of every allocation or of none.
    if (has_labels && event.action == TorchAction::alloc) {
      const bool labeled = event.label != LabelTable::kNone;
      entry("category", labeled ? std::string_view{snapshot_.labels.at(event.label)} : "unknown");
    }
    out_.end_dict();
  }

  void write_settings() {
    const TorchSettings& settings = snapshot_.settings;
    out_.text("allocator_settings");
    out_.begin_dict();
    entry("PYTORCH_CUDA_ALLOC_CONF", std::string_view{settings.configuration});
    if (settings.max_split_size == TorchSettings::kUnlimited) {
      entry_signed("max_split_size", -1);
    } else {
      entry("max_split_size", settings.max_split_size);
    }
    out_.text("garbage_collection_threshold");
    out_.real(settings.garbage_collection_threshold);
    entry("expandable_segments", settings.expandable_segments);
    out_.text("roundup_power2_divisions");
    out_.begin_dict();
    for (std::size_t i = 0; i < settings.roundup_power2_divisions.size(); ++i) {
      entry(std::to_string(std::size_t{1} << i), settings.roundup_power2_divisions[i]);
    }
    out_.end_dict();
    out_.end_dict();
  }

  const TorchSnapshot& snapshot_;
  PickleWriter out_;
  std::unordered_map<StackTable::Id, std::uint32_t> stacks_;  // their places in the file
  std::unordered_map<StackTable::FrameId, std::uint32_t> frames_;
};

}  // namespace

TorchSnapshot whole_snapshot(const AllocationLog& log) {
  TorchSnapshot whole = log.snapshot.value();
  whole.stacks = log.stacks;
  whole.labels = log.labels;
  return whole;
}

void append(TorchSnapshot& snapshot, const TorchSnapshot& more) {
  StackCopy stacks{more.stacks, snapshot.stacks};
  snapshot.of_millrace = snapshot.of_millrace || more.of_millrace;
  const auto take = [&](auto item) {
    item.stack = stacks.of(item.stack);
    item.label = snapshot.labels.add(more.labels.at(item.label));
    return item;
  };
  for (TorchSegment segment : more.segments) {
    std::ranges::transform(segment.blocks, segment.blocks.begin(), take);
    snapshot.segments.push_back(std::move(segment));
  }
  snapshot.traces.resize(std::max(snapshot.traces.size(), more.traces.size()));
  for (std::size_t device = 0; device < more.traces.size(); ++device) {
    auto& events = snapshot.traces[device];
    std::ranges::transform(more.traces[device], std::back_inserter(events), take);
  }
  for (TorchMark mark : more.marks) {
    mark.name = snapshot.labels.add(more.labels.at(mark.name));
    snapshot.marks.push_back(mark);
  }
  std::ranges::stable_sort(snapshot.marks, {}, &TorchMark::time_us);
}

std::string write_torch_snapshot(const TorchSnapshot& snapshot) {
  return SnapshotWriter{snapshot}.run();
}

}  // namespace millrace::trace
