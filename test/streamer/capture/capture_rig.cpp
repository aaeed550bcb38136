#include "test/streamer/capture/capture_rig.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace millrace::test {

std::string CaptureCase::name() const {
  return fmt::format(
      "{}, {} slots of {}, {} {}, {}, gather on {}, optimizer {}{}{}, refused {}, schedule {}, "
      "data "
      "{}{}",
      to_string(options.mode), options.slots, options.slot_bytes, to_string(options.when_full),
      options.patience.count(), to_string(options.content),
      options.gather_on == GatherOn::own_stream ? "its own stream" : "the update's",
      static_cast<int>(optimizer), cached ? ", cached" : "",
      on == TrainsOn::main ? "" : fmt::format(", {}", to_string(on)), refuse_every, schedule, data,
      left_out.empty() ? "" : ", without: " + left_out);
}

CaptureCase draw_case(CaptureMode mode, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  const auto one_of = [&](auto... values) {
    const std::array all{values...};
    return all[random() % all.size()];
  };
  CaptureCase what{.options = {.mode = mode,
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
                   .on = one_of(TrainsOn::main, TrainsOn::update, TrainsOn::off_main),
                   .schedule = seed,
                   .data = seed};
  if (random() % 4 == 0) what.refuse_every = 3;
  if (random() % 4 == 0) what.receive_time = std::chrono::microseconds{50};
  return what;
}

bool SinkReceiver::captured(const CapturedRows& delivered) {
  if (what_.receive_time > Nanoseconds{0}) executor_.spend(what_.receive_time);
  ++calls;
  steps.push_back(delivered.step);
  missing = delivered.missing;
  modeled += delivered.modeled_rows;
  if (what_.refuse_every != 0 && random_() % what_.refuse_every == 0) return false;
  StepBatch batch;
  delivered.visit(1, [&](const RowRecord& row) {
    if (what_.options.mode != CaptureMode::mapped &&
        what_.options.mode != CaptureMode::sync_pageable) {
      checking_.host_reads(row.weights.data(), row.weights.size_bytes(), "ship");
    }
    batch.add(row);
  });
  rows += batch.size();
  batch.commit.version = {1, last_.step + 1};
  batch.commit.after = last_;
  batch.commit.step = delivered.step;
  batch.commit.missing = delivered.missing;
  last_ = batch.commit.version;
  sink.write(batch);
  return true;
}

CaptureRig::CaptureRig(const CaptureCase& what)
    : TrainingRig({.optimizer = what.optimizer,
                   .cached = what.cached,
                   .on = what.on,
                   .schedule = what.schedule,
                   .data = what.data,
                   .steps = what.steps,
                   .tables = what.tables}),
      what_(what),
      receiver(what_, machine.executor(), checking),
      first_(contents()) {
  program_device.leave_out(what.left_out);
  capture = std::make_unique<RowCapture>(
      RowCapture::Source{*bags, 0, table_numbers()},
      CaptureEnvironment{context, pinned, machine.executor(), receiver}, what.options);
  StreamSchema schema{.content = what.options.content};
  schema.tables.resize(kFirstTable, {.name = "another", .rows = 1, .width = 1});
  for (std::size_t i = 0; i < kFirstTable; ++i) schema.tables[i].name += std::to_string(i);
  for (const StreamedTable& table : capture->tables()) schema.tables.push_back(table);
  receiver.sink.begin(schema);
}

CaptureRig::~CaptureRig() {
  try {
    capture.reset();
  } catch (const DeviceError&) {
  }
}

bool CaptureRig::flush(Nanoseconds patience) {
  if (what_.on != TrainsOn::off_main) use_tables_on(main);
  return capture->flush(tables_on(), patience);
}

std::string CaptureRig::compare() {
  capture->stop();
  const TableContents now = contents();
  TableContents copy = first_;
  std::map<std::pair<std::uint32_t, std::int64_t>, Version> delivered;
  const bool ids = what_.options.content == RowContent::ids;
  const bool state = what_.options.content == RowContent::weights_and_state;
  const auto take = [](std::span<const float> from, std::vector<float>& to, std::int64_t row) {
    std::copy(from.begin(), from.end(),
              to.begin() + row * static_cast<std::ptrdiff_t>(from.size()));
  };
  std::string unknown;
  receiver.sink.read([&](const RowRecord& row) {
    if (!has({row.table, row.row})) {
      unknown = fmt::format("there is no row {} of table {}", row.row, row.table);
      return;
    }
    const std::size_t t = row.table - kFirstTable;
    const std::int64_t here = row.row - bags->tables()[t].row_of_whole;
    delivered[{row.table, here}] = row.version;
    take(row.weights, copy.weights[t], here);
    take(row.state, copy.state[t], here);
  });
  if (!unknown.empty()) return unknown;
  for (std::size_t t = 0; t < now.weights.size(); ++t) {
    const TableView& table = bags->tables()[t];
    for (std::size_t row = 0; row < table.rows; ++row) {
      const auto differs = [&](const TableContents& other, bool with_state) {
        const auto part = [&](const std::vector<float>& a, const std::vector<float>& b,
                              std::size_t width) {
          return width != 0 && std::memcmp(a.data() + row * width, b.data() + row * width,
                                           width * sizeof(float)) != 0;
        };
        return part(now.weights[t], other.weights[t], table.width) ||
               (with_state && part(now.state[t], other.state[t],
                                   table.first_moment_width + table.second_moment_width));
      };
      const auto version = delivered.find(
          {kFirstTable + static_cast<std::uint32_t>(t), static_cast<std::int64_t>(row)});
      // `ids` delivers no values, so a row that differs from its first contents must be delivered.
      const bool wrong =
          ids ? differs(first_, true) && version == delivered.end() : differs(copy, state);
      if (!wrong) continue;
      return fmt::format("row {} of table {} is another; {}", row, t,
                         version == delivered.end()
                             ? "it was not delivered"
                             : "delivered with " + to_string(version->second));
    }
  }
  return "";
}

}  // namespace millrace::test
