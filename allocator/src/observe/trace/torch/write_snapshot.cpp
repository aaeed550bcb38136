#include "millrace/observe/trace/write_snapshot.hpp"

#include <string_view>

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
    out_.text("segments");
    out_.begin_list();
    for (const TorchSegment& segment : snapshot_.segments) write(segment);
    out_.end_list();
    out_.text("device_traces");
    out_.begin_list();
    for (std::size_t device = 0; device < snapshot_.traces.size(); ++device) {
      out_.begin_list();
      for (const TorchEvent& event : snapshot_.traces[device]) write(event, device);
      out_.end_list();
    }
    out_.end_list();
    write_settings();
    out_.text("external_annotations");
    out_.begin_list();
    out_.end_list();
    out_.end_dict();
    return out_.finish();
  }

 private:
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

  void no_frames() {
    out_.text("frames");
    out_.begin_list();
    out_.end_list();
  }

  void write(const TorchSegment& segment) {
    std::uint64_t allocated = 0, active = 0, requested = 0;
    for (const TorchBlock& block : segment.blocks) {
      if (block.state == BlockState::inactive) continue;
      active += block.bytes;
      requested += block.requested;
      if (block.state == BlockState::allocated) allocated += block.bytes;
    }
    out_.begin_dict();
    entry("device", std::uint64_t{segment.device});
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
    no_frames();
    out_.text("blocks");
    out_.begin_list();
    for (const TorchBlock& block : segment.blocks) write(block);
    out_.end_list();
    out_.end_dict();
  }

  void write(const TorchBlock& block) {
    out_.begin_dict();
    entry("address", block.address);
    entry("size", block.bytes);
    entry("requested_size", block.requested);
    entry("state", std::string_view{name_of(block.state)});
    no_frames();
    out_.end_dict();
  }

  void write(const TorchEvent& event, std::size_t device) {
    if (event.action == TorchAction::other) return;
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
    entry("device", std::uint64_t{device});
    if (event.pool) {
      out_.text("pool_id");
      out_.pair(event.pool->first, event.pool->second);
    }
    no_frames();
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
};

}  // namespace

std::string write_torch_snapshot(const TorchSnapshot& snapshot) {
  return SnapshotWriter{snapshot}.run();
}

}  // namespace millrace::trace
