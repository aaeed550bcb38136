#include "capture/source_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "capture/cuda/kernels.hpp"
#include "capture/host/kernels.hpp"
#include "millrace/pipeline/kernels/enqueue.hpp"

namespace millrace::capture {

using model::enqueue;
using model::reads;
using model::writes;

namespace {

constexpr auto kFloat = static_cast<double>(sizeof(float));
/** Upper bound on the rounding of a table's values. */
constexpr std::size_t kRoundings = 8 * sizeof(float);

/** @brief The first parameters of all tables. */
struct Home {
  const float *weights = nullptr, *first_moment = nullptr, *second_moment = nullptr;
};

Home home_of(std::span<const TableView> tables) {
  if (tables.empty()) return {};
  const TableView& first = tables.front();
  return {first.weights, first.first_moment, first.second_moment};
}

}  // namespace

SourceRows::SourceRows(ModelContext& context, EmbeddingBags& bags, const Selection& selection)
    : context_(context), bags_(bags), type_(bags.row_type()) {
  for (const std::string& name : selection.skipped) {
    const auto named = [&](const TableView& table) { return table.name == name; };
    if (std::ranges::none_of(bags.tables(), named)) {
      throw std::invalid_argument{fmt::format("the table '{}' to skip does not exist", name)};
    }
  }
  for (const TableView& view : bags.tables()) {
    tables_.push_back({.first_row = view.first_row,
                       .rows = static_cast<std::int64_t>(view.rows),
                       .width = static_cast<std::int32_t>(view.width),
                       .first_moment_width = static_cast<std::int32_t>(view.first_moment_width),
                       .second_moment_width = static_cast<std::int32_t>(view.second_moment_width),
                       .skipped = std::ranges::count(selection.skipped, view.name) != 0 ? 1 : 0});
    rows_ += view.rows;
  }
  const bool by_row = std::ranges::all_of(
      bags.tables(), [](const TableView& view) { return view.first_moment_width == 1; });
  shape_ = {.slot_width = bags.slot_view().width,
            .moment_of_row = by_row ? 1 : 0,
            .weights = selection.content != RowContent::ids ? 1 : 0,
            .state = selection.content == RowContent::weights_and_state ? 1 : 0};
}

std::vector<StreamedTable> SourceRows::schema() const {
  std::vector<StreamedTable> tables;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const TableView& view = bags_.tables()[t];
    tables.push_back({.name = view.name,
                      .rows = view.whole_rows,
                      .width = static_cast<std::uint32_t>(tables_[t].width),
                      .state = static_cast<std::uint32_t>(shape_.state_of(tables_[t]))});
  }
  return tables;
}

std::size_t SourceRows::least_bytes() const {
  return header_bytes() + 16 + widest_row() + kRoundings;
}

std::size_t SourceRows::most_bytes() const {
  std::size_t bytes = header_bytes() + 16;
  for (const SourceTable& table : tables_) {
    bytes += bytes_of(static_cast<std::size_t>(table.rows), table, shape_, size_of(type_));
  }
  return std::max(bytes, least_bytes());
}

std::size_t SourceRows::widest_row() const {
  std::size_t row = 0;
  for (const SourceTable& table : tables_) {
    row = std::max(row, sizeof(float) * (shape_.width_of(table) + shape_.state_of(table)));
  }
  return row + size_of(type_);
}

std::size_t SourceRows::sure_rows(std::size_t bytes) const {
  const std::size_t all = budget(bytes, tables_.size());
  const std::size_t roundings = kRoundings * tables_.size();
  return all > roundings ? (all - roundings) / widest_row() : 0;
}

std::size_t SourceRows::sure_bytes(std::size_t rows) const {
  return header_bytes() + 16 + kRoundings * tables_.size() + rows * widest_row();
}

std::size_t SourceRows::most_rows(std::size_t bytes) const {
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const SourceTable& table : tables_) {
    if (table.skipped != 0) continue;
    least = std::min(least, sizeof(float) * (shape_.width_of(table) + shape_.state_of(table)));
  }
  if (least == std::numeric_limits<std::size_t>::max()) return 1;
  return std::clamp<std::size_t>(budget(bytes, tables_.size()) / (least + size_of(type_)), 1,
                                 std::max<std::size_t>(rows_, 1));
}

GatheredRows SourceRows::of(const RowUpdate& update) const {
  GatheredRows rows{.list = {update.rows, update.count, update.most},
                    .slots = update.slots,
                    .at_home = update.at_home};
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (skips(t)) continue;
    rows.rows += update.expected[t];
    rows.bytes += update.expected[t] * kFloat *
                  static_cast<double>(shape_.width_of(tables_[t]) + shape_.state_of(tables_[t]));
  }
  return rows;
}

GatheredRows SourceRows::of(const RowList& list, double rows) const {
  double all = 0, floats = 0;
  for (const SourceTable& table : tables_) {
    if (table.skipped != 0) continue;
    all += static_cast<double>(table.rows);
    floats += static_cast<double>(table.rows) *
              static_cast<double>(shape_.width_of(table) + shape_.state_of(table));
  }
  rows = std::min({rows, all, static_cast<double>(list.most)});
  const double slots = static_cast<double>(bags_.cache_slots());
  return {.list = list,
          .rows = rows,
          .bytes = all > 0 ? rows * kFloat * floats / all : 0,
          .at_home = bags_.cached() && all > 0 ? std::max(0.0, 1 - slots / all) : 0};
}

// Called at the first gather: bound tables get their place just before their first use.
void SourceRows::upload(Allocator& pinned, StreamRef stream) {
  const auto views = bags_.tables();
  const Home home = home_of(views);
  const auto from = [](const float* begin, const float* at) {
    return at == nullptr ? std::int64_t{0} : static_cast<std::int64_t>(at - begin);
  };
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    SourceTable& table = tables_[t];
    table.weights = from(home.weights, views[t].weights);
    table.first_moment = from(home.first_moment, views[t].first_moment);
    table.second_moment = from(home.second_moment, views[t].second_moment);
  }
  const TableView& last = views.back();
  const auto end = [&](std::int64_t at, std::size_t width) {
    return width == 0 ? 0 : static_cast<std::size_t>(at) + last.rows * width;
  };
  weights_ = end(tables_.back().weights, last.width);
  first_moment_ = end(tables_.back().first_moment, last.first_moment_width);
  second_moment_ = end(tables_.back().second_moment, last.second_moment_width);

  const std::size_t bytes = tables_.size() * sizeof(SourceTable);
  const Buffer on_host{pinned, bytes, stream, pinned.tag("captured rows")};
  std::memcpy(on_host.data(), tables_.data(), bytes);
  Buffer on_device{context_.allocator(), bytes, context_.main(), stream,
                   context_.allocator().tag("captured rows")};
  context_.device().copy(on_device.data(), on_host.data(), bytes, CopyKind::host_to_device,
                         stream.handle());
  on_device_ = std::move(on_device);
}

void SourceRows::gather(const GatheredRows& rows, const SlotMemory& slot, const DirtyRows& dirty,
                        Allocator& pinned, StreamRef stream) {
  if (!on_device_) upload(pinned, stream);
  GatherShape shape = shape_;
  shape.capacity = slot.bytes;
  const Home home = home_of(bags_.tables());
  const SlotView cache = bags_.slot_view();
  const bool weights = shape.weights != 0, state = shape.state != 0;
  const std::size_t slot_numbers = cache.slots * cache.width;
  const std::size_t first_moments = shape.moment_of_row != 0 ? cache.slots : slot_numbers;
  const double ids = rows.rows * static_cast<double>(size_of(type_));
  const double from_host = rows.bytes * rows.at_home;
  const double to_slot = rows.bytes + ids;
  const model::Declared declared{
      .name = "gather rows",
      .bytes = rows.bytes - from_host + ids + (slot.on_host ? 0 : to_slot),
      .host_read = from_host,
      .host_written = slot.on_host ? to_slot : 0};
  const auto part = [](bool wanted, const float* data, std::size_t size) {
    return reads(wanted ? data : nullptr, size);
  };
  with_key(type_, [&]<typename Key>(Key) {
    enqueue<host::gather_rows<float, Key>, cuda::gather_rows<Key>>(
        context_, stream, declared,
        GatherRowsArguments<float, Key>{
            .slot = writes(slot.data, slot.bytes),
            .dirty = dirty.view(),
            .from = {.home = {.weights = part(weights, home.weights, weights_),
                              .first_moment = part(state, home.first_moment, first_moment_),
                              .second_moment = part(state, home.second_moment, second_moment_)},
                     .cached = {.weights = part(weights, cache.weights, slot_numbers),
                                .first_moment = part(state, cache.first_moment, first_moments),
                                .second_moment = part(state, cache.second_moment, slot_numbers)},
                     .slots = reads(rows.slots, rows.list.most),
                     .tables =
                         reads(static_cast<const SourceTable*>(on_device_.data()), tables_.size())},
            .rows = reads(static_cast<const Key*>(rows.list.rows), rows.list.most),
            .count = reads(rows.list.count, 1),
            .shape = shape});
  });
}

void SourceRows::drain(const GatheredRows& rows, const SlotMemory& from, const SlotMemory& to,
                       StreamRef stream) const {
  const double ids = rows.rows * static_cast<double>(size_of(type_));
  const double bytes = std::min(rows.bytes + ids, static_cast<double>(to.bytes));
  enqueue<host::drain_slot, cuda::drain_slot>(
      context_, stream, {.name = "drain rows", .bytes = bytes, .host_written = bytes},
      writes(to.data, to.bytes), reads(static_cast<const std::byte*>(from.data), from.bytes));
}

bool SourceRows::valid(const std::byte* slot, std::size_t bytes) const {
  CaptureHeader header;
  std::memcpy(&header, slot, sizeof(header));
  const std::span starts{reinterpret_cast<const std::uint32_t*>(slot + sizeof(header)),
                         tables_.size() + 1};
  if (header.tables != tables_.size() || header.bytes > bytes || starts.front() != 0 ||
      starts.back() != header.rows || !std::ranges::is_sorted(starts)) {
    return false;
  }
  std::size_t floats = 0;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    floats += floats_of(starts[t + 1] - starts[t], tables_[t], shape_);
  }
  return header.bytes ==
         numbers_begin(tables_.size(), header.rows, size_of(type_)) + floats * sizeof(float);
}

void SourceRows::read(const std::byte* slot, std::span<const std::uint32_t> numbers,
                      CapturedRows& rows) const {
  CaptureHeader header;
  std::memcpy(&header, slot, sizeof(header));
  const auto* const starts = reinterpret_cast<const std::uint32_t*>(slot + sizeof(header));
  const std::byte* const ids = slot + header_bytes();
  if (type_ == IndexType::int32) {
    rows.short_ids = {reinterpret_cast<const std::uint32_t*>(ids), header.rows};
  } else {
    rows.long_ids = {reinterpret_cast<const std::uint64_t*>(ids), header.rows};
  }
  const auto* values = reinterpret_cast<const float*>(
      slot + numbers_begin(tables_.size(), header.rows, size_of(type_)));
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const std::size_t count = starts[t + 1] - starts[t];
    if (count == 0) continue;
    const SourceTable& table = tables_[t];
    const std::size_t width = shape_.width_of(table), state = shape_.state_of(table);
    const float* const states = values + rounded(count * width, 4);
    rows.tables.push_back({.table = numbers[t],
                           .width = static_cast<std::uint32_t>(width),
                           .state = static_cast<std::uint32_t>(state),
                           .first = starts[t],
                           .rows = count,
                           .to_row = bags_.tables()[t].row_of_whole - table.first_row,
                           .weights = width == 0 ? nullptr : values,
                           .optimizer_state = state == 0 ? nullptr : states});
    values += floats_of(count, table, shape_);
  }
}

std::size_t SourceRows::changed_bytes(const CapturedRows& rows) const {
  std::size_t bytes = 0;
  for (const CapturedRows::TableRows& part : rows.tables) {
    bytes += part.rows * (part.width + part.state) * sizeof(float);
  }
  return bytes;
}

}  // namespace millrace::capture
