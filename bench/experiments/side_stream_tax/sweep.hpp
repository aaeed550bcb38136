#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "millrace/experiment/footprint.hpp"
#include "millrace/memory/policy.hpp"

namespace millrace::side_stream_tax {

/** @brief The allocator and the copy strategy of a run. */
struct Row {
  const char* allocator;
  CopyMethod method;
};
inline constexpr std::array kRows{
    Row{"torch", CopyMethod::side_stream},    Row{"torch", CopyMethod::in_place},
    Row{"millrace", CopyMethod::side_stream}, Row{"millrace", CopyMethod::in_place},
    Row{"millrace", CopyMethod::precise},
};

/** @brief The values to combine. A setting has one value of each list. */
struct Settings {
  std::vector<double> balances{0.5, 1, 2, 5};
  std::vector<std::string> activations{"4GiB", "20GiB"};
  std::vector<std::string> shapes{"sparse-dist", "base"};
  std::vector<std::string> waits{"coarse"};
  std::vector<unsigned> run_ahead;  ///< empty: the workload's value
  std::string workload = "sparse_data_dist_base";
  std::string batch_bytes = "1GiB";
  std::size_t seeds = 16;
  std::size_t steps = 20;
  std::optional<double> variation;
  bool no_tables = false;
  Policy policy = Policy::millrace();
};

/** @brief The figures of one run: GiB, milliseconds, and counts per step. */
struct Figures {
  double reserved = 0, active = 0, step = 0, hidden = 0, calls = 0, waits = 0, stranded = 0;
};
using Figure = double Figures::*;

/** @brief The figures of a row at one setting. */
struct Cell {
  experiment::Workload workload;
  Waits waits;
  Row row;
  std::vector<Figures> by_seed;

  [[nodiscard]] double median(Figure figure) const;
  [[nodiscard]] double mean(Figure figure) const;
};

/**
 * @brief Runs every row at every setting, two runs at a time.
 * @return the cells; the rows of a setting are adjacent
 * @throws std::invalid_argument for an unknown name
 */
[[nodiscard]] std::vector<Cell> sweep(const Settings& settings);

}  // namespace millrace::side_stream_tax
