#include "millrace/streamer/change_tracker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "capture/dirty_rows.hpp"
#include "capture/source_rows.hpp"
#include "millrace/device/stream.hpp"

namespace millrace {

using namespace capture;

namespace {

constexpr std::uint32_t kMostShift = 16;

std::size_t rows_of(const EmbeddingBags& bags) {
  std::size_t rows = 0;
  for (const TableView& table : bags.tables()) rows += table.rows;
  return rows;
}

std::size_t bitmap_bytes(std::size_t rows, std::uint32_t shift) {
  return static_cast<std::size_t>(BitShape{rows, shift}.words()) * sizeof(std::uint32_t) +
         sizeof(DirtyCounts);
}

}  // namespace

struct ChangeTracker::Consumer {
  std::string name;
  DirtyRows rows;
  std::uint64_t cursor = 0;
  bool all = false;  ///< are to be set: an update could not be noted
};

/** @brief What rows of one content are read through. */
class ChangeTracker::Chunk {
 public:
  Chunk(const Source& source, const Memory& memory, const TrackerOptions& options,
        RowContent content)
      : content_(content),
        source_(source),
        memory_(memory),
        rows_(memory.context, source.bags, {content, options.skipped_tables}) {
    // What is surely room for some rows is room for more of all tables than they have.
    const std::size_t bytes = std::min(options.chunk_bytes, 2 * rows_.most_bytes());
    Allocator& allocator = memory.context.allocator();
    Stream& main = memory.context.main();
    device_ = {allocator, bytes, main, allocator.tag("tracked rows")};
    host_ = {memory.pinned, bytes, main, memory.pinned.tag("tracked rows")};
  }

  [[nodiscard]] RowContent content() const noexcept { return content_; }

  /** @brief Brings as many as there is room for. @return what the gather says */
  CaptureHeader bring(DirtyRows& dirty, StreamRef stream) {
    OrderedDevice& ordered = memory_.context.allocator().device();
    const std::size_t most = rows_.sure_rows(device_.size());
    if (most >> dirty.shape().shift == 0) {
      throw std::invalid_argument{fmt::format("{} bytes have no room for the rows of a bit, {}",
                                              device_.size(),
                                              std::size_t{1} << dirty.shape().shift)};
    }
    collected_ = dirty.collect(most, stream);
    try {
      const Array<std::int32_t> slots = source_.bags.locate(collected_.rows.data(), collected_.most,
                                                            collected_.count.data(), stream);
      GatheredRows rows = rows_.of(collected_.list(), static_cast<double>(most));
      rows.slots = slots.data();
      rows_.gather(rows, {static_cast<std::byte*>(device_.data()), device_.size(), false}, dirty,
                   memory_.pinned, stream);
      Device& device = ordered.device();
      const auto* const from = static_cast<const std::byte*>(device_.data());
      device.copy(host(), from, rows_.header_bytes(), CopyKind::device_to_host, stream.handle());
      ordered.synchronize(stream);
      CaptureHeader header;
      if (memory_.context.cost_only()) return header;
      std::memcpy(&header, host(), sizeof(header));
      const std::size_t at = rows_.header_bytes();
      if (header.bytes > at) {
        device.copy(host() + at, from + at, header.bytes - at, CopyKind::device_to_host,
                    stream.handle());
        ordered.synchronize(stream);
      }
      return header;
    } catch (...) {
      put_back(dirty, stream);
      throw;
    }
  }
  void put_back(DirtyRows& dirty, StreamRef stream) { dirty.mark(collected_.list(), stream); }
  void read(CapturedRows& rows) const { rows_.read(host(), source_.tables, rows); }
  void release() { collected_ = {}; }

 private:
  [[nodiscard]] std::byte* host() const { return static_cast<std::byte*>(host_.data()); }

  const RowContent content_;
  const Source& source_;
  const Memory& memory_;
  SourceRows rows_;
  Buffer device_, host_;
  DirtyRows::Collected collected_;
};

ChangeTracker::ChangeTracker(const Source& source, const Memory& memory,
                             const TrackerOptions& options)
    : source_(source), memory_(memory), options_(options), step_(source.bags.steps()) {
  if (source_.tables.size() != source_.bags.tables().size()) {
    throw std::invalid_argument{fmt::format("numbers of {} tables are given, of {}",
                                            source_.tables.size(), source_.bags.tables().size())};
  }
  static_cast<void>(
      SourceRows{memory.context, source.bags, {RowContent::ids, options.skipped_tables}});
  source_.bags.add_observer(*this);
}

ChangeTracker::~ChangeTracker() { source_.bags.remove_observer(*this); }

void ChangeTracker::rows_updated(const RowUpdate& update) {
  ++counts_.steps;
  step_ = update.step;
  if (update.most == 0) return;
  for (const auto& consumer : consumers_) {
    if (consumer->all) continue;
    try {
      consumer->rows.use_on(update.stream);
      consumer->rows.mark({update.rows, update.count, update.most}, update.stream);
    } catch (const DeviceError&) {
      consumer->all = true;
      ++counts_.failures;
    }
  }
}

std::uint32_t ChangeTracker::shift_under_cap() const {
  const std::size_t rows = rows_of(source_.bags);
  if (options_.memory_cap == 0) return 0;
  const std::size_t taken = memory();
  const std::size_t left = options_.memory_cap > taken ? options_.memory_cap - taken : 0;
  const std::uint32_t most = options_.over_cap == OverCap::coarsen ? kMostShift : 0;
  for (std::uint32_t shift = 0; shift <= most; ++shift) {
    if (bitmap_bytes(rows, shift) <= left) return shift;
  }
  throw std::invalid_argument{
      fmt::format("another consumer takes {} bytes with {} rows a bit, and {} of {} are left",
                  bitmap_bytes(rows, most), 1U << most, left, options_.memory_cap)};
}

void ChangeTracker::add_consumer(const std::string& name) {
  const auto same = [&](const auto& consumer) { return consumer->name == name; };
  if (std::ranges::any_of(consumers_, same)) {
    throw std::invalid_argument{fmt::format("there is a consumer '{}' already", name)};
  }
  consumers_.push_back(std::make_unique<Consumer>(
      Consumer{name,
               {memory_.context, rows_of(source_.bags), source_.bags.row_type(), shift_under_cap()},
               step_}));
}

void ChangeTracker::remove_consumer(std::string_view name) {
  Consumer& consumer = find(name);
  std::erase_if(consumers_, [&](const auto& other) { return other.get() == &consumer; });
}

ChangeTracker::Consumer& ChangeTracker::find(std::string_view name) const {
  for (const auto& consumer : consumers_) {
    if (consumer->name == name) return *consumer;
  }
  throw std::invalid_argument{fmt::format("there is no consumer '{}'", name)};
}

std::vector<std::string> ChangeTracker::consumers() const {
  std::vector<std::string> names;
  for (const auto& consumer : consumers_) names.push_back(consumer->name);
  return names;
}

std::uint64_t ChangeTracker::cursor(std::string_view consumer) const {
  return find(consumer).cursor;
}

std::size_t ChangeTracker::rows_per_bit(std::string_view consumer) const {
  return std::size_t{1} << find(consumer).rows.shape().shift;
}

std::size_t ChangeTracker::memory() const noexcept {
  std::size_t bytes = 0;
  for (const auto& consumer : consumers_) bytes += consumer->rows.bytes();
  return bytes;
}

ChangeTracker::Chunk& ChangeTracker::chunk(RowContent content) {
  for (const auto& chunk : chunks_) {
    if (chunk->content() == content) return *chunk;
  }
  return *chunks_.emplace_back(std::make_unique<Chunk>(source_, memory_, options_, content));
}

void ChangeTracker::catch_up(Consumer& consumer, StreamRef stream) {
  if (!consumer.all) return;
  consumer.rows.mark(0, rows_of(source_.bags), stream);
  consumer.all = false;
}

ChangeTracker::Range ChangeTracker::read(std::string_view name, RowContent content,
                                         StreamRef stream, const Visit& visit) {
  Consumer& consumer = find(name);
  Chunk& chunk = this->chunk(content);
  consumer.rows.use_on(stream);
  catch_up(consumer, stream);
  Range range{.after = consumer.cursor, .to = step_};
  for (bool more = true; more;) {
    const CaptureHeader header = chunk.bring(consumer.rows, stream);
    more = header.missing != 0;
    counts_.skipped += header.skipped;
    CapturedRows rows{.step = step_, .more = more, .missing = header.missing};
    if (header.rows != 0) chunk.read(rows);
    bool taken = header.rows == 0;
    try {
      taken = taken || visit(rows);
    } catch (...) {
      chunk.put_back(consumer.rows, stream);
      throw;
    }
    if (!taken) {
      chunk.put_back(consumer.rows, stream);
      range.complete = false;
      break;
    }
    range.rows += header.rows;
    counts_.rows += header.rows;
  }
  chunk.release();
  if (range.complete) consumer.cursor = step_;
  return range;
}

void ChangeTracker::put_back(std::string_view name, const CapturedRows& rows, StreamRef stream) {
  std::vector<std::uint64_t> ids(rows.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = rows.id(i);
  DirtyRows& changed = find(name).rows;
  changed.use_on(stream);
  changed.mark(ids, memory_.pinned, stream);
}

}  // namespace millrace
