#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "millrace/experiment/footprint.hpp"
#include "millrace/memory/policy.hpp"

namespace millrace::side_stream_tax {

/** @brief What is compared at each setting. */
struct Row {
  const char* allocator;
  CopyMethod method;
};
inline constexpr std::array kRows{
    Row{"torch", CopyMethod::side_stream},    Row{"torch", CopyMethod::in_place},
    Row{"millrace", CopyMethod::side_stream}, Row{"millrace", CopyMethod::in_place},
    Row{"millrace", CopyMethod::precise},
};

/** @brief A setting is one of each list, in every combination. */
struct Settings {
  std::vector<double> balances{0.5, 1, 2, 5};
  std::vector<std::string> activations{"4GiB", "20GiB"};
  std::vector<std::string> shapes{"sparse-dist", "base"};
  std::vector<std::string> waits{"coarse"};
  std::vector<unsigned> run_ahead;  ///< none: the workload's
  std::string workload = "sparse_data_dist_base";
  std::string batch_bytes = "1GiB";
  std::size_t seeds = 16;
  std::size_t steps = 20;
  std::optional<double> variation;
  bool no_tables = false;
  Policy policy = Policy::millrace();
};

/** @brief What one run came to: GiB, milliseconds, and counts a step. */
struct Figures {
  double reserved = 0, active = 0, step = 0, hidden = 0, calls = 0, waits = 0, stranded = 0;
};
using Figure = double Figures::*;

/** @brief A row at one setting. */
struct Cell {
  experiment::Workload workload;
  Waits waits;
  Row row;
  std::vector<Figures> by_seed;

  [[nodiscard]] double median(Figure figure) const;
  [[nodiscard]] double mean(Figure figure) const;
};

/**
 * @brief Runs every row at every setting, two at a time; those of a setting follow one another.
 * @throws std::invalid_argument for names that there are not
 */
[[nodiscard]] std::vector<Cell> sweep(const Settings& settings);

}  // namespace millrace::side_stream_tax
