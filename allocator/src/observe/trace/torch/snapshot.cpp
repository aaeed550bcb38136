#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "millrace/observe/trace/parse_error.hpp"
#include "millrace/observe/trace/torch_snapshot.hpp"
#include "millrace/round_up.hpp"
#include "millrace/text/parse_number.hpp"
#include "observe/trace/torch/rebase.hpp"
#include "observe/trace/torch/stack_reader.hpp"
#include "observe/trace/torch/writer_name.hpp"
#include "observe/trace/value/field.hpp"

namespace millrace::trace {

namespace {

constexpr std::uint64_t kAddressSpace = std::uint64_t{1} << 57;  // with 5-level paging
constexpr std::uint32_t kMostDevices = 1024;

struct ActionName {
  TorchAction action;
  std::string_view name;
};
constexpr auto kActions = std::to_array<ActionName>({
    {TorchAction::alloc, "alloc"},
    {TorchAction::free_requested, "free_requested"},
    {TorchAction::free_completed, "free_completed"},
    {TorchAction::segment_alloc, "segment_alloc"},
    {TorchAction::segment_free, "segment_free"},
    {TorchAction::segment_map, "segment_map"},
    {TorchAction::segment_unmap, "segment_unmap"},
    {TorchAction::snapshot, "snapshot"},
    {TorchAction::out_of_memory, "oom"},
    {TorchAction::annotate, "annotate"},
    {TorchAction::other, "other"},
});

class SnapshotReader {
 public:
  SnapshotReader(Warnings& warnings, const ValueTree& tree) : warnings_{warnings}, budget_{tree} {}

  TorchSnapshot read(const Field& root) {
    if (root.is(ValueKind::list)) {  // torch.cuda.memory_snapshot(): segments alone
      read_segments(root, snapshot_);
      return std::move(snapshot_);
    }
    read_segments(root["segments"], snapshot_);
    if (const auto traces = root.find("device_traces")) read_traces(*traces, snapshot_);
    complete_frees(snapshot_);
    if (const auto marks = root.find("external_annotations")) read_marks(*marks);
    if (const auto segments = root.find("host_segments")) read_host_segments(*segments);
    if (const auto trace = root.find("host_traces")) read_host_trace(*trace);
    if (const auto settings = root.find("allocator_settings")) {
      snapshot_.settings = read_settings(*settings);
    }
    if (const auto writer = root.find("writer"))
      snapshot_.of_millrace = writer->is(ValueKind::string) && writer->text() == kMillraceWriter;
    return std::move(snapshot_);
  }

 private:
  static std::uint64_t read_bytes(const Field& field) {
    const std::uint64_t bytes = field.natural();
    if (bytes > kAddressSpace)
      field.fail(fmt::format("is {}, beyond an address space of 57 bits", bytes));
    return bytes;
  }

  static std::uint64_t read_size(const Field& field) {
    if (read_bytes(field) == 0) field.fail("is 0, should be a size");
    return field.natural();
  }

  static std::uint32_t read_device(const Field& record) {
    const auto field = record.find("device");
    if (!field) return 0;
    const std::uint64_t device = field->natural();
    if (device >= kMostDevices) field->fail(fmt::format("device {} is beyond reason", device));
    return static_cast<std::uint32_t>(device);
  }

  static std::int64_t read_integer_or_0(const Field& record, std::string_view key) {
    const auto field = record.find(key);
    return field ? field->integer() : 0;
  }

  static std::int64_t read_time(const Field& record) {
    constexpr double beyond = 9e18;
    const auto field = record.find("time_us");
    if (!field) return 0;
    if (field->is(ValueKind::integer)) return field->integer();
    const double time = field->number();
    if (!(time > -beyond && time < beyond)) field->fail("is not a time");
    return static_cast<std::int64_t>(time);
  }

  void read_segments(const Field& list, TorchSnapshot& snapshot) {
    for (std::size_t i = 0; i < list.size(); ++i)
      snapshot.segments.push_back(read_segment(list[i], Place::device));
  }

  enum class Place : std::uint8_t { device, host };

  TorchSegment read_segment(const Field& record, Place place) {
    budget_.count_record(record);
    TorchSegment segment;
    if (place == Place::device) segment.device = read_device(record);  // the host's is -1
    segment.address = read_bytes(record["address"]);
    segment.bytes = read_size(record["total_size"]);
    segment.stream = read_integer_or_0(record, "stream");
    segment.large = read_is_large(record["segment_type"]);
    if (const auto expandable = record.find("is_expandable"))
      segment.expandable = expandable->boolean();
    if (const auto pool = record.find("segment_pool_id")) segment.pool = read_pool(*pool);
    read_blocks(record["blocks"], segment);
    return segment;
  }

  static TorchPool read_pool(const Field& field) {
    if (field.size() != 2) field.fail("should be a tuple of two");
    return {field[std::size_t{0}].integer(), field[std::size_t{1}].integer()};
  }

  static bool read_is_large(const Field& field) {
    const std::string_view type = field.text();
    if (type != "large" && type != "small") {
      field.fail(fmt::format("is {}, should be 'large' or 'small'", quoted(type)));
    }
    return type == "large";
  }

  void read_blocks(const Field& list, TorchSegment& segment) {
    std::uint64_t next = segment.address;
    for (std::size_t i = 0; i < list.size(); ++i) {
      segment.blocks.push_back(read_block(list[i], next));
      const TorchBlock& block = segment.blocks.back();
      if (block.address != next) {
        warnings_.add("a block does not begin where the one before it ends",
                      fmt::format("block at {:#x}", block.address));
      }
      next = block.address + block.bytes;
    }
    if (next != segment.address + segment.bytes) {
      warnings_.add("the blocks of a segment do not add up to its size",
                    fmt::format("segment at {:#x}", segment.address));
    }
  }

  TorchBlock read_block(const Field& record, std::uint64_t next) {
    budget_.count_record(record);
    TorchBlock block;
    const auto address = record.find("address");
    block.address = address ? read_bytes(*address) : next;
    block.bytes = read_size(record["size"]);
    block.state = read_state(record["state"]);
    if (block.state != BlockState::inactive) {
      const auto requested = find_requested(record);
      block.requested = requested ? read_bytes(*requested) : block.bytes;
      if (block.requested > block.bytes) {
        requested->fail(fmt::format("{} bytes in a block of {}", block.requested, block.bytes));
      }
      block.stack = stacks_.stack_of(record);
      block.label = stacks_.label_of(record);
    }
    return block;
  }

  // Up to 2.0, the request stands in the block's history, the latest first.
  static std::optional<Field> find_requested(const Field& record) {
    if (auto requested = record.find("requested_size")) return requested;
    const auto history = record.find("history");
    if (!history || history->size() == 0) return std::nullopt;
    return (*history)[std::size_t{0}].find("real_size");
  }

  static BlockState read_state(const Field& field) {
    const std::string_view state = field.text();
    if (state == "inactive") return BlockState::inactive;
    if (state == "active_allocated") return BlockState::allocated;
    if (state == "active_pending_free" || state == "active_awaiting_free") {
      return BlockState::pending_free;
    }
    field.fail(fmt::format(
        "is {}, should be 'active_allocated', 'active_pending_free' or 'inactive'", quoted(state)));
  }

  void read_traces(const Field& list, TorchSnapshot& snapshot) {
    if (list.size() > kMostDevices)
      list.fail(fmt::format("{} devices are beyond reason", list.size()));
    for (std::size_t device = 0; device < list.size(); ++device) {
      const Field trace = list[device];
      auto& events = snapshot.traces.emplace_back();
      events.reserve(std::min(trace.size(), budget_.records_left()));
      for (std::size_t i = 0; i < trace.size(); ++i) events.push_back(read_event(trace[i]));
    }
  }

  TorchEvent read_event(const Field& record) {
    budget_.count_record(record);
    TorchEvent event;
    event.action = read_action(record["action"]);
    // Only these fields of the two are used, so only these are checked.
    if (event.action == TorchAction::snapshot || event.action == TorchAction::other) return event;
    event.stream = read_integer_or_0(record, "stream");
    event.time_us = read_time(record);
    event.stack = stacks_.stack_of(record);
    event.label = stacks_.label_of(record);
    if (event.action == TorchAction::out_of_memory) {
      // The request may be larger than any address space: that is how such a program is wrong.
      event.bytes = record["size"].natural();
      if (const auto free = record.find("device_free")) event.address = free->natural();
      return event;
    }
    event.address = read_bytes(record["addr"]);
    if (event.action == TorchAction::annotate) return event;
    event.bytes = read_bytes(record["size"]);
    if (const auto pool = record.find("pool_id")) event.pool = read_pool(*pool);
    return event;
  }

  void read_host_segments(const Field& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      snapshot_.host_segments.push_back(read_segment(list[i], Place::host));
    }
  }

  void read_host_trace(const Field& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      snapshot_.host_trace.push_back(read_event(list[i]));
    }
  }

  // Only explanations show annotations: one of another form is passed over, and the file is read.
  static std::optional<std::pair<std::uint32_t, std::int64_t>> place_of_mark(const Field& record) {
    try {
      return std::pair{read_device(record), read_time(record)};
    } catch (const ParseError&) {
      return std::nullopt;
    }
  }

  void read_marks(const Field& list) {
    if (!list.is(ValueKind::list)) return;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Field record = list[i];
      if (!record.is(ValueKind::dict)) continue;
      budget_.count_record(record);
      const auto name = record.find("name"), stage = record.find("stage");
      if (!name || !name->is(ValueKind::string) || !stage || !stage->is(ValueKind::string))
        continue;
      if (stage->text() != "START" && stage->text() != "END") continue;
      if (const auto place = place_of_mark(record)) {
        snapshot_.marks.push_back({.name = stacks_.label(name->text(), record),
                                   .begins = stage->text() == "START",
                                   .device = place->first,
                                   .time_us = place->second});
      }
    }
    std::ranges::stable_sort(snapshot_.marks, {}, &TorchMark::time_us);
  }

  // Recording can leave completions out. Without any, and with none awaited at the end, frees are
  // taken as complete at once.
  void complete_frees(TorchSnapshot& snapshot) {
    const bool awaited = std::ranges::any_of(snapshot.segments, [](const TorchSegment& segment) {
      return std::ranges::any_of(segment.blocks, [](const TorchBlock& block) {
        return block.state == BlockState::pending_free;
      });
    });
    if (awaited) return;
    for (std::size_t device = 0; device < snapshot.traces.size(); ++device) {
      auto& events = snapshot.traces[device];
      const auto has = [&](TorchAction action) {
        return std::ranges::find(events, action, &TorchEvent::action) != events.end();
      };
      if (!has(TorchAction::free_requested) || has(TorchAction::free_completed)) continue;
      warnings_.add("a trace without free_completed: frees are taken as complete at once",
                    fmt::format("device_traces[{}]", device));
      std::vector<TorchEvent> completed;
      for (const TorchEvent& event : events) {
        completed.push_back(event);
        if (event.action != TorchAction::free_requested) continue;
        completed.push_back(event);
        completed.back().action = TorchAction::free_completed;
      }
      events = std::move(completed);
    }
  }

  TorchAction read_action(const Field& field) {
    const std::string_view name = field.text();
    const auto* const known = std::ranges::find(kActions, name, &ActionName::name);
    if (known != kActions.end() && known->action != TorchAction::other) return known->action;
    warnings_.add("an action of the trace is not known and passed over", quoted(name));
    return TorchAction::other;
  }

  static TorchSettings read_settings(const Field& record) {
    TorchSettings settings;
    // Without a limit it is -1, or the largest size_t.
    const auto size = record.find("max_split_size");
    if (size && !size->is(ValueKind::big_integer) && size->integer() >= 0) {
      settings.max_split_size = size->natural();
    }
    if (const auto threshold = record.find("garbage_collection_threshold")) {
      settings.garbage_collection_threshold = threshold->number();
    }
    if (const auto expandable = record.find("expandable_segments")) {
      settings.expandable_segments = expandable->boolean();
    }
    if (const auto divisions = record.find("roundup_power2_divisions")) {
      for (std::size_t i = 0; i < settings.roundup_power2_divisions.size(); ++i) {
        const std::string megabytes = std::to_string(std::size_t{1} << i);
        if (const auto steps = divisions->find(megabytes)) {
          settings.roundup_power2_divisions[i] = read_divisions(*steps);
        }
      }
    }
    for (const std::string_view key : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
      if (const auto configuration = record.find(key)) {
        settings.configuration = configuration->text();
      }
    }
    read_configuration(settings);
    return settings;
  }

  static std::uint64_t read_divisions(const Field& field) {
    const std::uint64_t steps = field.natural();
    if (steps > 1 && (!std::has_single_bit(steps) || steps > (1U << 20))) {
      field.fail(fmt::format("is {}, should be 0 or a power of two", steps));
    }
    return steps;
  }

  // Two knobs that newer versions have and a snapshot shows only in the string they were set by.
  static void read_configuration(TorchSettings& settings) {
    if (const auto size = find_megabytes(settings.configuration, "large_segment_size_mb:")) {
      settings.large_segment_size = *size;
    }
    if (const auto size = find_megabytes(settings.configuration, "max_non_split_rounding_mb:")) {
      settings.max_non_split_rounding = *size;
    }
  }

  static std::optional<std::uint64_t> find_megabytes(std::string_view configuration,
                                                     std::string_view key) {
    constexpr std::uint64_t most = std::uint64_t{1} << 20;
    const auto at = configuration.find(key);
    if (at == std::string_view::npos) return std::nullopt;
    std::string_view rest = configuration.substr(at + key.size());
    const auto value = text::take_number<std::uint64_t>(rest);
    if (!value || *value > most) return std::nullopt;
    return *value << 20;
  }

  Warnings& warnings_;
  RecordBudget budget_;
  TorchSnapshot snapshot_;
  StackReader stacks_{snapshot_, warnings_, budget_};
};

}  // namespace

const char* to_string(TorchAction action) noexcept {
  return std::ranges::find(kActions, action, &ActionName::action)->name.data();
}

std::uint64_t torch_rounded(std::uint64_t requested, const TorchSettings& settings) {
  constexpr std::uint64_t unit = 512;
  if (requested < unit) return unit;
  // Steps are set for [1 MiB, 2 MiB), [2 MiB, 4 MiB), ...; below and above, the nearest range
  // holds.
  const auto& divisions = settings.roundup_power2_divisions;
  constexpr std::size_t first_range = std::bit_width(std::uint64_t{1} << 20);
  const std::size_t width = std::bit_width(requested);
  const std::size_t range = width < first_range ? 0 : width - first_range;
  const std::uint64_t steps = divisions[std::min(range, divisions.size() - 1)];
  if (steps <= 1 || requested <= unit * steps) return round_up(requested, unit);
  const std::uint64_t step = std::bit_floor(requested) / steps;
  return round_up(requested, step);
}

TorchSnapshot read_torch_snapshot(const ValueTree& tree, const std::string& source,
                                  Warnings& warnings) {
  const Field root{tree.root(), source};
  TorchSnapshot snapshot = SnapshotReader{warnings, tree}.read(root);
  rebase(snapshot, source, warnings);
  return snapshot;
}

}  // namespace millrace::trace
