#include "millrace/pipeline/sharding/sharding_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "millrace/text/json_document.hpp"
#include "millrace/text/json_object.hpp"
#include "millrace/text/parse_enum.hpp"

namespace millrace {
namespace {

using text::JsonObject;

constexpr std::array<std::string_view, kShardings.size()> kNames{"table-wise", "row-wise",
                                                                 "data-parallel"};

struct Placed {
  const TableConfig& table;
  TablePlacement& placement;
};

std::vector<Placed> all_of(const SparseNNConfig& config, ShardingPlan& plan) {
  std::vector<Placed> all;
  for (std::size_t i = 0; i < config.tables.size(); ++i) {
    all.push_back({config.tables[i], plan.tables[i]});
  }
  for (std::size_t i = 0; i < config.weighted_tables.size(); ++i) {
    all.push_back({config.weighted_tables[i], plan.weighted_tables[i]});
  }
  return all;
}

std::size_t bytes_of(const TableConfig& table, const Optimizer& optimizer) {
  const std::size_t of_row =
      table.width * (1 + state_of_parameter(optimizer.kind)) + state_of_row(optimizer.kind);
  return table.rows * of_row * sizeof(float);
}

bool too_few_rows(const TableConfig& table, unsigned ranks) {
  const std::size_t block = (table.rows + ranks - 1) / ranks;
  return (ranks - 1) * block >= table.rows;
}

/** Positions in parts of bags are sent as floats, which are exact only up to this number. */
constexpr std::size_t kMostPositions = std::size_t{1} << 24;

const std::string* feature_with_too_many_positions(const TableConfig& table,
                                                   const SparseNNConfig& config) {
  const auto found = std::ranges::find_if(table.features, [&](const std::string& feature) {
    const auto weights = config.position_weights.find(feature);
    return weights != config.position_weights.end() && weights->second > kMostPositions;
  });
  return found == table.features.end() ? nullptr : &*found;
}

bool can_be_split(const TableConfig& table, const SparseNNConfig& config, unsigned ranks) {
  return feature_with_too_many_positions(table, config) == nullptr && !too_few_rows(table, ranks);
}

/** The work and the bytes of each rank. */
struct Loads {
  std::vector<double> work;
  std::vector<std::size_t> bytes;

  [[nodiscard]] std::size_t least_busy(std::size_t more, std::size_t most) const {
    std::size_t best = work.size();
    for (std::size_t rank = 0; rank < work.size(); ++rank) {
      if (bytes[rank] + more > most) continue;
      if (best == work.size() || work[rank] < work[best]) best = rank;
    }
    return best;
  }
};

}  // namespace

std::string_view to_string(Sharding sharding) noexcept {
  return kNames[static_cast<std::size_t>(sharding)];
}

Sharding parse_sharding(std::string_view name) {
  return text::parse_enum("sharding", name, kShardings);
}

void ShardingPlan::check(const SparseNNConfig& config) const {
  if (ranks == 0) throw std::invalid_argument{"a sharding plan needs at least one rank"};
  if (tables.size() != config.tables.size() ||
      weighted_tables.size() != config.weighted_tables.size()) {
    throw std::invalid_argument{fmt::format(
        "the plan places {} tables and {} with weights; the model has {} and {}", tables.size(),
        weighted_tables.size(), config.tables.size(), config.weighted_tables.size())};
  }
  ShardingPlan copy = *this;
  for (const auto& [table, placement] : all_of(config, copy)) {
    if (placement.sharding == Sharding::table_wise && placement.rank >= ranks) {
      throw std::invalid_argument{fmt::format("table '{}' is on rank {}, but there are {} ranks",
                                              table.name, placement.rank, ranks)};
    }
    const std::size_t block = (table.rows + ranks - 1) / ranks;
    if (placement.sharding == Sharding::row_wise && too_few_rows(table, ranks)) {
      throw std::invalid_argument{
          fmt::format("table '{}' has {} rows: too few for each of {} ranks to have a block of {}",
                      table.name, table.rows, ranks, block)};
    }
    if (placement.sharding != Sharding::row_wise) continue;
    if (const std::string* const feature = feature_with_too_many_positions(table, config)) {
      throw std::invalid_argument{
          fmt::format("feature '{}' of table '{}' has more than {} position weights: its bags can "
                      "not be split by rows",
                      *feature, table.name, kMostPositions)};
    }
  }
}

ShardingPlan plan_sharding(const SparseNNConfig& config, unsigned ranks,
                           const PlannerOptions& options) {
  ShardingPlan plan{ranks, std::vector<TablePlacement>(config.tables.size()),
                    std::vector<TablePlacement>(config.weighted_tables.size())};
  plan.check(config);
  const std::vector<Placed> tables = all_of(config, plan);
  const auto bytes = [&](const TableConfig& table) {
    return bytes_of(table, config.table_optimizer);
  };
  const auto work = [&](const TableConfig& table) {
    return options.pooling * static_cast<double>(table.width * table.features.size());
  };
  const std::size_t all = std::accumulate(
      tables.begin(), tables.end(), std::size_t{0},
      [&](std::size_t sum, const Placed& placed) { return sum + bytes(placed.table); });
  const std::size_t share = std::min(all / ranks, options.rank_bytes);

  Loads loads{std::vector<double>(ranks), std::vector<std::size_t>(ranks)};
  std::vector<const Placed*> whole;
  for (const Placed& placed : tables) {
    const std::size_t size = bytes(placed.table);
    if (size <= options.data_parallel_bytes) {
      placed.placement.sharding = Sharding::data_parallel;
      for (std::size_t& of_rank : loads.bytes) of_rank += size;
    } else if (options.split_rows && size > share && ranks > 1 &&
               can_be_split(placed.table, config, ranks)) {
      placed.placement.sharding = Sharding::row_wise;
      for (std::size_t& of_rank : loads.bytes) of_rank += (size + ranks - 1) / ranks;
      for (double& of_rank : loads.work) of_rank += work(placed.table) / ranks;
    } else {
      whole.push_back(&placed);
    }
  }
  // Places the table with the most work first, each on the rank with the least work so far. Equal
  // tables stay in the model's order, so the plan depends on the model alone.
  std::ranges::stable_sort(whole, [&](const Placed* one, const Placed* other) {
    return std::pair(work(one->table), bytes(one->table)) >
           std::pair(work(other->table), bytes(other->table));
  });
  for (const Placed* const placed : whole) {
    const std::size_t size = bytes(placed->table);
    const std::size_t rank = loads.least_busy(size, options.rank_bytes);
    if (rank == ranks) {
      throw std::invalid_argument{fmt::format("table '{}' of {} bytes fits on no rank: each has {}",
                                              placed->table.name, size, options.rank_bytes)};
    }
    placed->placement.rank = static_cast<unsigned>(rank);
    loads.bytes[rank] += size;
    loads.work[rank] += work(placed->table);
  }
  const std::size_t fullest = *std::ranges::max_element(loads.bytes);
  if (fullest > options.rank_bytes) {
    throw std::invalid_argument{fmt::format("the tables take {} bytes of a rank, which has {}",
                                            fullest, options.rank_bytes)};
  }
  return plan;
}

ShardingPlan plan_alike(const SparseNNConfig& config, unsigned ranks, Sharding sharding) {
  ShardingPlan plan = plan_sharding(config, ranks, {.data_parallel_bytes = 0, .split_rows = false});
  for (const auto& [table, placement] : all_of(config, plan)) {
    const bool whole = sharding == Sharding::table_wise ||
                       (sharding == Sharding::row_wise && !can_be_split(table, config, ranks));
    if (!whole) placement = {sharding, 0};
  }
  return plan;
}

ShardingPlan parse_sharding_plan(std::string_view json, std::string_view origin,
                                 const SparseNNConfig& config, ShardingPlan others) {
  const nlohmann::json document = text::parse_document(json, origin);
  JsonObject all{document, {origin, ""}};
  for (const auto& [table, placement] : all_of(config, others)) {
    const nlohmann::json* const found = all.find(table.name);
    if (found == nullptr) continue;
    JsonObject one{*found, all.place().at(table.name)};
    std::string sharding;
    one.text("sharding", sharding, true);
    try {
      placement = {parse_sharding(sharding), 0};
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument{
          fmt::format("{}: {}.sharding: {}", origin, table.name, error.what())};
    }
    if (placement.sharding == Sharding::table_wise) {
      std::size_t rank = 0;
      one.integer("rank", rank, 0, others.ranks - 1, true);
      placement.rank = static_cast<unsigned>(rank);
    }
    one.finish("a table's placement");
  }
  all.finish("a sharding plan");
  others.check(config);
  return others;
}

ShardingPlan load_sharding_plan(const std::filesystem::path& file, const SparseNNConfig& config,
                                ShardingPlan others) {
  return parse_sharding_plan(text::read_document(file), file.string(), config, std::move(others));
}

std::string to_json(const ShardingPlan& plan, const SparseNNConfig& config) {
  ShardingPlan copy = plan;
  nlohmann::ordered_json document = nlohmann::ordered_json::object();
  for (const auto& [table, placement] : all_of(config, copy)) {
    document[table.name]["sharding"] = to_string(placement.sharding);
    if (placement.sharding == Sharding::table_wise) document[table.name]["rank"] = placement.rank;
  }
  return document.dump(2);
}

}  // namespace millrace
