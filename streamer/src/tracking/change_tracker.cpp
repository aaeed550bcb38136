#include "millrace/streamer/change_tracker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <utility>

#include "capture/dirty_rows.hpp"
#include "capture/source_rows.hpp"
#include "capture/succeeds.hpp"
#include "tracking/changed_rows.hpp"
#include "tracking/chunk.hpp"

namespace millrace {

using namespace capture;

namespace {

constexpr std::uint32_t kMostShift = 16;

std::size_t row_count(const EmbeddingBags& bags) {
  std::size_t rows = 0;
  for (const TableView& table : bags.tables()) rows += table.rows;
  return rows;
}

std::size_t bitmap_bytes(std::size_t rows, std::uint32_t shift) {
  return static_cast<std::size_t>(BitShape{rows, shift}.words()) * sizeof(std::uint32_t) +
         sizeof(DirtyCounts);
}

}  // namespace

ChangeTracker::ChangedRows::ChangedRows(ModelContext& context, const EmbeddingBags& bags,
                                        std::uint32_t shift)
    : bits_(context, row_count(bags), bags.row_type(), shift) {}

void ChangeTracker::ChangedRows::ready(StreamRef stream) {
  bits_.use_on(stream);
  if (!all_) return;
  bits_.mark_dirty(0, bits_.shape().rows, stream);
  all_ = false;
}

struct ChangeTracker::Consumer {
  std::string name;
  std::uint64_t cursor = 0;
  std::unique_ptr<ChangedRows> now;  ///< changes after the cut; without a cut, after the cursor
  /** Changes up to the cut, until they are read; null without a cut. */
  std::unique_ptr<ChangedRows> closed;
  std::uint64_t cut = 0;
  bool reading = false;
  std::vector<std::uint64_t> put_back;  ///< rows that were put back during a read

  [[nodiscard]] ChangedRows& next() const { return closed ? *closed : *now; }
};

ChangeTracker::ChangeTracker(const Source& source, const TrackerEnvironment& environment,
                             const TrackerOptions& options)
    : source_(source), environment_(environment), options_(options), step_(source.bags.steps()) {
  if (source_.tables.size() != source_.bags.tables().size()) {
    throw std::invalid_argument{
        fmt::format("{} table numbers for {} tables (expected one for each)", source_.tables.size(),
                    source_.bags.tables().size())};
  }
  const SourceRows widest{
      environment.context, source.bags, {RowContent::weights_and_state, options.skipped_tables}};
  rows_ = widest.rows();
  const std::size_t room = Chunk::room(widest, options_);
  if (room == 0 && rows_ != 0) {
    throw std::invalid_argument{
        fmt::format("chunks of {} bytes have no room for a row: {} bytes are needed",
                    options_.chunk_bytes, widest.sure_bytes(1))};
  }
  most_shift_ = std::min<std::uint32_t>(
      kMostShift, room == 0 ? 0 : static_cast<std::uint32_t>(std::bit_width(room)) - 1);
  if (options_.registers) source_.bags.add_observer(*this);
}

ChangeTracker::~ChangeTracker() {
  if (options_.registers) source_.bags.remove_observer(*this);
}

DirtyRows& ChangeTracker::undelivered() {
  if (!undelivered_) undelivered_ = no_changes(0);
  return undelivered_->bits();
}

void ChangeTracker::rows_updated(const RowUpdate& update) {
  ++counts_.steps;
  step_ = update.step;
  if (update.most == 0) return;
  for (const auto& consumer : consumers_) {
    ChangedRows& changes = *consumer->now;
    if (changes.lost()) continue;
    const bool marked = succeeds([&] {
      changes.bits().use_on(update.stream);
      changes.bits().mark_dirty({update.rows, update.count, update.most}, update.stream);
    });
    if (marked) continue;
    changes.lose();
    ++counts_.failures;
  }
}

std::size_t ChangeTracker::room_under_cap() const noexcept {
  const std::size_t taken = memory(), cap = options_.memory_cap;
  if (cap == 0) return std::numeric_limits<std::size_t>::max();
  return cap > taken ? cap - taken : 0;
}

std::uint32_t ChangeTracker::shift_under_cap() const {
  const std::size_t left = room_under_cap();
  const std::uint32_t most = options_.over_cap == OverCap::coarsen ? most_shift_ : 0;
  for (std::uint32_t shift = 0; shift <= most; ++shift) {
    if (bitmap_bytes(rows_, shift) <= left) return shift;
  }
  throw std::invalid_argument{
      fmt::format("another consumer takes {} bytes with {} rows a bit, and {} of {} are left",
                  bitmap_bytes(rows_, most), 1U << most, left, options_.memory_cap)};
}

std::unique_ptr<ChangeTracker::ChangedRows> ChangeTracker::no_changes(std::uint32_t shift) const {
  return std::make_unique<ChangedRows>(environment_.context, source_.bags, shift);
}

void ChangeTracker::add_consumer(const std::string& name) {
  const auto same = [&](const auto& consumer) { return consumer->name == name; };
  if (std::ranges::any_of(consumers_, same)) {
    throw std::invalid_argument{fmt::format("consumer '{}' exists already", name)};
  }
  consumers_.push_back(std::make_unique<Consumer>(
      Consumer{.name = name, .cursor = step_, .now = no_changes(shift_under_cap())}));
}

std::uint64_t ChangeTracker::cut(std::string_view name) {
  Consumer& consumer = find(name);
  if (consumer.closed) {
    throw std::invalid_argument{
        fmt::format("consumer '{}' has not read up to its last cut, step {}", name, consumer.cut)};
  }
  const std::uint32_t shift = consumer.now->bits().shape().shift;
  if (bitmap_bytes(rows_, shift) > room_under_cap()) {
    throw std::invalid_argument{fmt::format("a second bitmap takes {} bytes, and {} of {} are left",
                                            bitmap_bytes(rows_, shift), room_under_cap(),
                                            options_.memory_cap)};
  }
  // As many rows per bit as before, so that both parts of the range are equally precise.
  consumer.closed = std::exchange(consumer.now, no_changes(shift));
  return consumer.cut = step_;
}

void ChangeTracker::remove_consumer(std::string_view name) {
  Consumer& consumer = find(name);
  std::erase_if(consumers_, [&](const auto& other) { return other.get() == &consumer; });
}

ChangeTracker::Consumer& ChangeTracker::find(std::string_view name) const {
  for (const auto& consumer : consumers_) {
    if (consumer->name == name) return *consumer;
  }
  throw std::invalid_argument{fmt::format("unknown consumer '{}'", name)};
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
  return std::size_t{1} << find(consumer).now->bits().shape().shift;
}

std::size_t ChangeTracker::memory() const noexcept {
  std::size_t bytes = 0;
  for (const auto& consumer : consumers_) {
    bytes +=
        consumer->now->bits().bytes() + (consumer->closed ? consumer->closed->bits().bytes() : 0);
  }
  return bytes;
}

ChangeTracker::Chunk& ChangeTracker::chunk(RowContent content, StreamRef stream) {
  for (const auto& chunk : chunks_) {
    if (chunk->content() == content) return *chunk;
  }
  return *chunks_.emplace_back(std::make_unique<Chunk>(*this, content, stream));
}

ChangeTracker::Range ChangeTracker::read(std::string_view name, RowContent content,
                                         StreamRef stream, const Visit& visit) {
  Consumer& consumer = find(name);
  Range range{.after = consumer.cursor, .to = consumer.closed ? consumer.cut : step_};
  if (rows_ != 0) {  // a rank may have no table
    Chunk& chunk = this->chunk(content, stream);
    consumer.next().ready(stream);
    consumer.reading = true;
    try {
      read(consumer, range, chunk, stream, visit);
    } catch (...) {
      // Rows that the visitor has put back must be marked even if it throws.
      static_cast<void>(end_read(consumer, stream));
      throw;
    }
    if (!end_read(consumer, stream)) range.complete = false;
  }
  if (!range.complete) return range;
  consumer.cursor = range.to;
  consumer.closed.reset();
  return range;
}

void ChangeTracker::read(Consumer& consumer, Range& range, Chunk& chunk, StreamRef stream,
                         const Visit& visit) {
  ChangedRows& changes = consumer.next();
  for (bool more = true; more && range.complete;) {
    PickedRows picked{.rows = changes.bits().collect(chunk.room(), stream), .slots = {}};
    const auto mark = [&] { changes.bits().mark_dirty(picked.rows.list(), stream); };
    CaptureHeader header;
    try {
      header = chunk.bring(picked, changes.bits(), stream);
      more = header.missing != 0;
      CapturedRows rows{
          .step = step_, .after = range.after, .more = more, .missing = header.missing};
      if (header.rows != 0) chunk.read(rows);
      range.complete = header.rows == 0 || visit(rows);
    } catch (...) {
      put_back(changes, mark, stream);
      throw;
    }
    if (!range.complete) return put_back(changes, mark, stream);
    range.rows += header.rows;
    counts_.rows += header.rows;
    counts_.skipped += header.skipped;
  }
}

// Returns false if the visitor has put rows back.
bool ChangeTracker::end_read(Consumer& consumer, StreamRef stream) {
  consumer.reading = false;
  const auto ids = std::exchange(consumer.put_back, {});
  if (ids.empty()) return true;
  put_back(consumer.next(), ids, stream);
  return false;
}

// Waits for the stream, so that another stream may read next. If rows cannot be marked, all rows
// count as changed.
void ChangeTracker::put_back(ChangedRows& changes, const std::function<void()>& mark,
                             StreamRef stream) {
  const bool marked = succeeds([&] {
    mark();
    environment_.context.allocator().device().synchronize(stream);
  });
  if (marked) return;
  changes.lose();
  ++counts_.failures;
}

void ChangeTracker::put_back(ChangedRows& changes, std::span<const std::uint64_t> ids,
                             StreamRef stream) {
  const auto mark = [&] {
    changes.bits().use_on(stream);
    changes.bits().mark_dirty(ids, environment_.pinned, stream);
  };
  put_back(changes, mark, stream);
}

void ChangeTracker::put_back(std::string_view name, const CapturedRows& rows, StreamRef stream) {
  Consumer& consumer = find(name);
  std::vector<std::uint64_t> ids;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows.id(i) < rows_) ids.push_back(rows.id(i));
  }
  if (ids.empty()) return;
  // The next range begins again where the range of these rows began.
  consumer.cursor = std::min(consumer.cursor, rows.after);
  if (consumer.reading) {
    consumer.put_back.insert(consumer.put_back.end(), ids.begin(), ids.end());
  } else {
    put_back(consumer.next(), ids, stream);
  }
}

}  // namespace millrace
