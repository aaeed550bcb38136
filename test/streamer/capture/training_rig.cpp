#include "test/streamer/capture/training_rig.hpp"

#include <fmt/format.h>

#include <random>

#include "test/support/schedules.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kMemory = std::size_t{256} << 20;

std::vector<TableConfig> tables_of(std::size_t count) {
  constexpr std::size_t kRows[] = {40, 150, 1, 70}, kWidths[] = {4, 13, 1, 8};
  std::vector<TableConfig> tables;
  for (std::size_t t = 0; t < count; ++t) {
    const std::size_t rows = count > 8 ? 1 + t % 7 : kRows[t % 4];
    // Some tables are a part of a larger table.
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

const char* to_string(TrainsOn where) noexcept {
  constexpr const char* kNames[] = {"on main", "updates on a stream of their own",
                                    "all on another stream than main"};
  return kNames[static_cast<std::size_t>(where)];
}

TrainingRig::TrainingRig(const TrainingCase& what)
    : what_(what),
      machine(schedule_of(what.schedule, kMemory)),
      device(machine.add_device({.memory_bytes = kMemory})),
      main(ordered, {.name = "main"}),
      update(ordered, {.name = "update"}),
      prefetch(ordered, {.name = "prefetch"}),
      tables_on_(&main) {
  EmbeddingOptions options{.optimizer = {.kind = what.optimizer, .learning_rate = 0.1F}};
  if (what.cached) options.cache = TableCache{.load_factor = 0.15};
  bags = std::make_unique<EmbeddingBags>(context, tables_of(what.tables), options);
  upload_batches();
  if (what.on == TrainsOn::off_main) use_tables_on(update);
}

TrainingRig::~TrainingRig() {
  try {
    main.wait_stream(update);
    main.wait_stream(prefetch);
    batches_.clear();
    bags.reset();
    device.synchronize();
  } catch (const DeviceError&) {
  }
}

void TrainingRig::upload_batches() {
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
    batches_.push_back({uploads_.upload(batch), uploads_.upload(gradient), rows_of(batch)});
  }
}

std::set<TrainingRig::RowName> TrainingRig::rows_of(const HostBags& batch) const {
  std::set<RowName> rows;
  for (std::size_t t = 0; t < batch.bags.size(); ++t) {
    const TableView& table = bags->tables()[t];
    for (const auto& bag : batch.bags[t]) {
      for (const std::int64_t id : bag) {
        if (id < 0 || id >= static_cast<std::int64_t>(table.rows)) continue;
        rows.insert({kFirstTable + static_cast<std::uint32_t>(t), id + table.row_of_whole});
      }
    }
  }
  return rows;
}

bool TrainingRig::has(const RowName& name) const {
  if (name.first < kFirstTable || name.first - kFirstTable >= bags->tables().size()) return false;
  const TableView& table = bags->tables()[name.first - kFirstTable];
  const std::int64_t row = name.second - table.row_of_whole;
  return row >= 0 && row < static_cast<std::int64_t>(table.rows);
}

void TrainingRig::use_tables_on(Stream& stream) {
  if (tables_on_->id() == stream.id()) return;
  stream.wait_stream(*tables_on_);
  tables_on_ = &stream;
}

void TrainingRig::bring(std::size_t number) {
  if (!what_.cached || number >= batches_.size()) return;
  Stream& on = what_.on == TrainsOn::off_main ? update : prefetch;
  use_tables_on(on);
  batches_[number].held = bags->prefetch(batches_[number].ids, on);
}

void TrainingRig::step() {
  Batch& batch = batches_[next_];
  if (next_ == 0) bring(0);
  Stream& forward = what_.on == TrainsOn::off_main ? update : main;
  use_tables_on(forward);
  const Array<float> pooled{memory, batch.gradient.as<float>().size(), forward};
  bags->look_up(batch.ids, nullptr, {pooled.data(), bags->columns(), 0}, forward);
  bring(++next_);
  Stream& on = what_.on == TrainsOn::main ? main : update;
  use_tables_on(on);
  if (what_.on == TrainsOn::off_main) churn_main();
  bags->update(batch.ids, nullptr, {batch.gradient.as<float>().data(), bags->columns(), 0}, on);
  batch.held.release();
}

void TrainingRig::train() {
  while (next_ < batches_.size()) step();
}

// Blocks of all sizes, so that the memory that main allocates next was just written.
void TrainingRig::churn_main(std::size_t of_each) {
  std::vector<Buffer> blocks;
  for (std::size_t bytes = 64; bytes <= std::size_t{1} << 17; bytes *= 2) {
    for (std::size_t i = 0; i < of_each; ++i) {
      const Buffer& block = blocks.emplace_back(memory, bytes, main);
      program_device.fill(block.data(), 1, bytes, main.handle());
    }
  }
}

TableContents TrainingRig::contents() {
  use_tables_on(main);
  ModelState state;
  bags->add_state(state, "");
  main.synchronize();
  TableContents all;
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
    const auto m = read(table.first_moment, table.rows * table.first_moment_width);
    const auto v = read(table.second_moment, table.rows * table.second_moment_width);
    auto& both = all.state.emplace_back();
    for (std::size_t row = 0; row < table.rows; ++row) {
      const auto add = [&](const std::vector<float>& from, std::size_t width) {
        both.insert(both.end(), from.begin() + static_cast<std::ptrdiff_t>(row * width),
                    from.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
      };
      add(m, table.first_moment_width);
      add(v, table.second_moment_width);
    }
  }
  if (what_.on == TrainsOn::off_main) use_tables_on(update);
  return all;
}

std::vector<std::uint32_t> TrainingRig::table_numbers() const {
  std::vector<std::uint32_t> numbers;
  for (std::size_t t = 0; t < what_.tables; ++t) {
    numbers.push_back(kFirstTable + static_cast<std::uint32_t>(t));
  }
  return numbers;
}

void TrainingRig::compute_until_a_race() {
  program_device.compute_while([this] { return checking.races().empty(); });
}

std::vector<std::string> TrainingRig::races() const {
  std::vector<std::string> messages;
  for (const RaceChecker::Race& race : checking.races()) messages.push_back(race.message);
  return messages;
}

}  // namespace millrace::test
