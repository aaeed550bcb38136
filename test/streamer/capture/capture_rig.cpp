#include "test/streamer/capture/capture_rig.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "test/support/schedules.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kMemory = std::size_t{256} << 20;

std::vector<TableConfig> tables_of(std::size_t count) {
  constexpr std::size_t kRows[] = {40, 150, 1, 70}, kWidths[] = {4, 13, 1, 8};
  std::vector<TableConfig> tables;
  for (std::size_t t = 0; t < count; ++t) {
    const std::size_t rows = count > 8 ? 1 + t % 7 : kRows[t % 4];
    // A part of a larger table, some of them.
    tables.push_back({.name = fmt::format("t{}", t),
                      .rows = rows,
                      .width = kWidths[t % 4],
                      .features = {fmt::format("f{}", t)},
                      .whole_rows = t % 2 == 0 ? rows : 3 * rows,
                      .first_row = t % 2 == 0 ? 0 : rows});
  }
  return tables;
}

}  // namespace

std::string CaptureCase::name() const {
  return fmt::format(
      "{}, {} slots of {}, {} {}, {}, gather on {}, optimizer {}{}{}, refused {}, schedule {}, "
      "data "
      "{}{}",
      to_string(options.way), options.slots, options.slot_bytes, to_string(options.when_full),
      options.patience.count(), to_string(options.content),
      options.gather_on == GatherOn::own_stream ? "its own stream" : "the update's",
      static_cast<int>(optimizer), cached ? ", cached" : "",
      update_on_main ? "" : ", update on its own stream", refuse_every, schedule, data,
      left_out.empty() ? "" : ", without: " + left_out);
}

CaptureCase draw_case(CaptureWay way, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  const auto one_of = [&](auto... values) {
    const std::array all{values...};
    return all[random() % all.size()];
  };
  CaptureCase what{.options = {.way = way,
                               .content = one_of(RowContent::weights, RowContent::weights_and_state,
                                                 RowContent::weights_and_state, RowContent::ids),
                               .slots = one_of(1U, 2U, 3U, 3U),
                               .slot_bytes = one_of(std::size_t{300}, std::size_t{1500},
                                                    std::size_t{64000}, std::size_t{64000}),
                               .when_full = one_of(WhenFull::block, WhenFull::mark_dirty),
                               .patience = std::chrono::microseconds{one_of(1, 20, 1000)},
                               .gather_on = one_of(GatherOn::update_stream, GatherOn::own_stream)},
                   .optimizer = one_of(OptimizerKind::sgd, OptimizerKind::rowwise_adagrad,
                                       OptimizerKind::adagrad, OptimizerKind::adam),
                   .cached = random() % 2 == 0,
                   .update_on_main = random() % 2 == 0,
                   .schedule = seed,
                   .data = seed};
  if (random() % 4 == 0) what.refuse_every = 3;
  if (random() % 4 == 0) what.receive_time = std::chrono::microseconds{50};
  return what;
}

bool SinkReceiver::captured(const CapturedRows& told) {
  if (what_.receive_time > Nanoseconds{0}) executor_.spend(what_.receive_time);
  ++calls;
  steps.push_back(told.step);
  missing = told.missing;
  modelled += told.modelled_rows;
  if (what_.refuse_every != 0 && random_() % what_.refuse_every == 0) return false;
  StepBatch batch;
  told.visit(1, [&](const RowRecord& row) {
    if (what_.options.way != CaptureWay::mapped && what_.options.way != CaptureWay::sync_pageable) {
      checking_.host_reads(row.weights.data(), row.weights.size_bytes(), "ship");
    }
    batch.add(row);
  });
  rows += batch.size();
  batch.mark.version = {1, last_.step + 1};
  batch.mark.after = last_;
  batch.mark.step = told.step;
  batch.mark.missing = told.missing;
  last_ = batch.mark.version;
  sink.write(batch);
  return true;
}

CaptureRig::CaptureRig(const CaptureCase& what)
    : what_(what),
      machine(schedule_of(what.schedule, kMemory)),
      device(machine.add_device({.memory_bytes = kMemory})),
      main(ordered, {.name = "main"}),
      update(ordered, {.name = "update"}),
      prefetch(ordered, {.name = "prefetch"}),
      receiver(what_, machine.executor(), checking),
      tables_on_(&main) {
  program_device.leave_out(what.left_out);
  EmbeddingOptions options{.optimizer = {.kind = what.optimizer, .learning_rate = 0.1F}};
  if (what.cached) options.cache = TableCache{.load_factor = 0.15};
  bags = std::make_unique<EmbeddingBags>(context, tables_of(what.tables), options);
  upload_batches();
  first_ = contents();
  std::vector<std::uint32_t> numbers;
  for (std::size_t t = 0; t < what.tables; ++t)
    numbers.push_back(static_cast<std::uint32_t>(t + 3));
  capture = std::make_unique<Capture>(
      Capture::Source{*bags, 0, numbers},
      Capture::Setting{context, pinned, machine.executor(), receiver}, what.options);
  StreamSchema schema{.content = what.options.content};
  schema.tables.resize(3, {.name = "another", .rows = 1, .width = 1});
  for (std::size_t i = 0; i < 3; ++i) schema.tables[i].name += std::to_string(i);
  for (const StreamedTable& table : capture->tables()) schema.tables.push_back(table);
  receiver.sink.begin(schema);
}

CaptureRig::~CaptureRig() {
  try {
    capture.reset();
    main.wait_stream(update);
    main.wait_stream(prefetch);
    batches_.clear();
    bags.reset();
  } catch (const DeviceError&) {
  }
}

void CaptureRig::upload_batches() {
  std::mt19937_64 random{what_.data};
  std::vector<std::size_t> rows;
  for (const TableView& table : bags->tables()) rows.push_back(table.rows);
  for (std::size_t i = 0; i < what_.steps; ++i) {
    HostBags batch = draw_bags(random, bags->features(), rows, 1 + random() % 8,
                               random() % 5 == 0 ? 0 : 5, false);
    if (random() % 3 == 0) batch.bags[0][0].push_back(static_cast<std::int64_t>(rows[0]));
    if (random() % 3 == 0) batch.bags[1 % rows.size()][0].push_back(-1);
    std::vector<float> gradient(batch.batch * bags->columns());
    for (float& g : gradient) g = static_cast<float>(random() % 2001) / 1000.0F - 1;
    batches_.push_back({uploads_.upload(batch), uploads_.upload(gradient)});
  }
}

void CaptureRig::use_tables_on(Stream& stream) {
  if (tables_on_->id() == stream.id()) return;
  stream.wait_stream(*tables_on_);
  tables_on_ = &stream;
}

void CaptureRig::bring(std::size_t number) {
  if (!what_.cached || number >= batches_.size()) return;
  use_tables_on(prefetch);
  batches_[number].held = bags->prefetch(batches_[number].ids, prefetch);
}

void CaptureRig::step() {
  Batch& batch = batches_[next_];
  if (next_ == 0) bring(0);
  use_tables_on(main);
  const Array<float> pooled{memory, batch.gradient.as<float>().size(), main};
  bags->forward(batch.ids, nullptr, {pooled.data(), bags->columns(), 0}, main);
  bring(++next_);
  Stream& on = what_.update_on_main ? main : update;
  use_tables_on(on);
  bags->backward(batch.ids, nullptr, {batch.gradient.as<float>().data(), bags->columns(), 0}, on);
  batch.held.release();
}

void CaptureRig::train() {
  while (next_ < batches_.size()) step();
}

bool CaptureRig::flush(Nanoseconds patience) {
  use_tables_on(main);
  return capture->flush(main, patience);
}

CaptureRig::Contents CaptureRig::contents() {
  use_tables_on(main);
  ModelState state;
  bags->add_state(state, "");
  main.synchronize();
  Contents all;
  const auto read = [&](const float* data, std::size_t size) {
    std::vector<float> values(size);
    if (size == 0) return values;
    device.copy(values.data(), data, size * sizeof(float),
                bags->cached() ? CopyKind::host_to_host : CopyKind::device_to_host, main.handle());
    main.synchronize();
    return values;
  };
  for (const TableView& table : bags->tables()) {
    all.weights.push_back(read(table.weights, table.rows * table.width));
    const auto m = read(table.m, table.rows * table.m_width);
    const auto v = read(table.v, table.rows * table.v_width);
    auto& both = all.state.emplace_back();
    for (std::size_t row = 0; row < table.rows; ++row) {
      const auto add = [&](const std::vector<float>& from, std::size_t width) {
        both.insert(both.end(), from.begin() + static_cast<std::ptrdiff_t>(row * width),
                    from.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
      };
      add(m, table.m_width);
      add(v, table.v_width);
    }
  }
  return all;
}

std::string CaptureRig::compare() {
  capture->stop();
  const Contents now = contents();
  Contents copy = first_;
  std::map<std::pair<std::uint32_t, std::int64_t>, Version> told;
  const bool ids = what_.options.content == RowContent::ids;
  const bool state = what_.options.content == RowContent::weights_and_state;
  const auto take = [](std::span<const float> from, std::vector<float>& to, std::int64_t row) {
    std::copy(from.begin(), from.end(),
              to.begin() + row * static_cast<std::ptrdiff_t>(from.size()));
  };
  receiver.sink.read([&](const RowRecord& row) {
    const std::size_t t = row.table - 3;
    const std::int64_t here = row.row - bags->tables()[t].row_of_whole;
    told[{row.table, here}] = row.version;
    take(row.weights, copy.weights[t], here);
    take(row.state, copy.state[t], here);
  });
  for (std::size_t t = 0; t < now.weights.size(); ++t) {
    const TableView& table = bags->tables()[t];
    for (std::size_t row = 0; row < table.rows; ++row) {
      const auto differs = [&](const Contents& other, bool with_state) {
        const auto part = [&](const std::vector<float>& a, const std::vector<float>& b,
                              std::size_t width) {
          return width != 0 && std::memcmp(a.data() + row * width, b.data() + row * width,
                                           width * sizeof(float)) != 0;
        };
        return part(now.weights[t], other.weights[t], table.width) ||
               (with_state && part(now.state[t], other.state[t], table.m_width + table.v_width));
      };
      const auto version =
          told.find({static_cast<std::uint32_t>(t + 3), static_cast<std::int64_t>(row)});
      const bool wrong =
          ids ? differs(first_, true) && version == told.end() : differs(copy, state);
      if (!wrong) continue;
      return fmt::format(
          "row {} of table {} is another; {}", row, t,
          version == told.end() ? "it was not told" : "told with " + to_string(version->second));
    }
  }
  return "";
}

std::vector<std::string> CaptureRig::races() const {
  std::vector<std::string> messages;
  for (const RaceChecker::Race& race : checking.races()) messages.push_back(race.message);
  return messages;
}

}  // namespace millrace::test
