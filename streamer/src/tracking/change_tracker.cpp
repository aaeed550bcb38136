#include "millrace/streamer/change_tracker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "capture/dirty_rows.hpp"
#include "capture/source_rows.hpp"
#include "capture/succeeds.hpp"
#include "tracking/chunk.hpp"

namespace millrace {

using namespace capture;

namespace {

constexpr std::uint32_t kMostShift = 16;

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

ChangeTracker::ChangeTracker(const Source& source, const Memory& memory,
                             const TrackerOptions& options)
    : source_(source), memory_(memory), options_(options), step_(source.bags.steps()) {
  if (source_.tables.size() != source_.bags.tables().size()) {
    throw std::invalid_argument{fmt::format("numbers of {} tables are given, of {}",
                                            source_.tables.size(), source_.bags.tables().size())};
  }
  const SourceRows widest{
      memory.context, source.bags, {RowContent::weights_and_state, options.skipped_tables}};
  rows_ = widest.rows();
  const std::size_t room = Chunk::room(widest, options_);
  if (room == 0 && rows_ != 0) {
    throw std::invalid_argument{fmt::format("chunks of {} bytes have no room for a row: {} do",
                                            options_.chunk_bytes, widest.sure_bytes(1))};
  }
  most_shift_ = std::min<std::uint32_t>(
      kMostShift, room == 0 ? 0 : static_cast<std::uint32_t>(std::bit_width(room)) - 1);
  source_.bags.add_observer(*this);
}

ChangeTracker::~ChangeTracker() { source_.bags.remove_observer(*this); }

void ChangeTracker::rows_updated(const RowUpdate& update) {
  ++counts_.steps;
  step_ = update.step;
  if (update.most == 0) return;
  for (const auto& consumer : consumers_) {
    if (consumer->all) continue;
    const bool marked = succeeds([&] {
      consumer->rows.use_on(update.stream);
      consumer->rows.mark({update.rows, update.count, update.most}, update.stream);
    });
    if (marked) continue;
    consumer->all = true;
    ++counts_.failures;
  }
}

std::uint32_t ChangeTracker::shift_under_cap() const {
  if (options_.memory_cap == 0) return 0;
  const std::size_t taken = memory();
  const std::size_t left = options_.memory_cap > taken ? options_.memory_cap - taken : 0;
  const std::uint32_t most = options_.over_cap == OverCap::coarsen ? most_shift_ : 0;
  for (std::uint32_t shift = 0; shift <= most; ++shift) {
    if (bitmap_bytes(rows_, shift) <= left) return shift;
  }
  throw std::invalid_argument{
      fmt::format("another consumer takes {} bytes with {} rows a bit, and {} of {} are left",
                  bitmap_bytes(rows_, most), 1U << most, left, options_.memory_cap)};
}

void ChangeTracker::add_consumer(const std::string& name) {
  const auto same = [&](const auto& consumer) { return consumer->name == name; };
  if (std::ranges::any_of(consumers_, same)) {
    throw std::invalid_argument{fmt::format("there is a consumer '{}' already", name)};
  }
  consumers_.push_back(std::make_unique<Consumer>(
      Consumer{name, {memory_.context, rows_, source_.bags.row_type(), shift_under_cap()}, step_}));
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

ChangeTracker::Chunk& ChangeTracker::chunk(RowContent content, StreamRef stream) {
  for (const auto& chunk : chunks_) {
    if (chunk->content() == content) return *chunk;
  }
  return *chunks_.emplace_back(std::make_unique<Chunk>(*this, content, stream));
}

void ChangeTracker::catch_up(Consumer& consumer, StreamRef stream) {
  if (!consumer.all) return;
  consumer.rows.mark(0, rows_, stream);
  consumer.all = false;
}

// Waits, so that another stream may read next. Where rows can not be set, all are.
void ChangeTracker::put_back(Consumer& consumer, const std::function<void()>& mark,
                             StreamRef stream) {
  const bool marked = succeeds([&] {
    mark();
    memory_.context.allocator().device().synchronize(stream);
  });
  if (marked) return;
  consumer.all = true;
  ++counts_.failures;
}

ChangeTracker::Range ChangeTracker::read(std::string_view name, RowContent content,
                                         StreamRef stream, const Visit& visit) {
  Consumer& consumer = find(name);
  if (rows_ == 0) {  // a rank without tables
    return {.after = std::exchange(consumer.cursor, step_), .to = step_};
  }
  Chunk& chunk = this->chunk(content, stream);
  consumer.rows.use_on(stream);
  catch_up(consumer, stream);
  Range range{.after = consumer.cursor, .to = step_};
  for (bool more = true; more && range.complete;) {
    const DirtyRows::Collected collected = consumer.rows.collect(chunk.room(), stream);
    const auto mark = [&] { consumer.rows.mark(collected.list(), stream); };
    CaptureHeader header;
    try {
      header = chunk.bring(collected, consumer.rows, stream);
      more = header.missing != 0;
      CapturedRows rows{.step = step_, .more = more, .missing = header.missing};
      if (header.rows != 0) chunk.read(rows);
      range.complete = header.rows == 0 || visit(rows);
    } catch (...) {
      put_back(consumer, mark, stream);
      throw;
    }
    counts_.skipped += header.skipped;
    if (!range.complete) {
      put_back(consumer, mark, stream);
      break;
    }
    range.rows += header.rows;
    counts_.rows += header.rows;
  }
  if (range.complete) consumer.cursor = step_;
  return range;
}

void ChangeTracker::put_back(std::string_view name, const CapturedRows& rows, StreamRef stream) {
  Consumer& consumer = find(name);
  std::vector<std::uint64_t> ids(rows.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = rows.id(i);
  const auto mark = [&] {
    consumer.rows.use_on(stream);
    consumer.rows.mark(ids, memory_.pinned, stream);
  };
  put_back(consumer, mark, stream);
}

}  // namespace millrace
