#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "cli/results.hpp"
#include "millrace/pipeline/model/table_cache.hpp"
#include "millrace/pipeline/schedule/training_device.hpp"
#include "train/stream_options.hpp"

namespace millrace::cli {

/** @brief The values of the options, not checked yet. */
struct TrainArguments {
  std::string pipeline = "base", copy = "side-stream", waits = "coarse";
  std::string allocator = "millrace";
  std::optional<std::string> device, ranks, group, sharding, rendezvous;
  std::optional<std::string> lookup_position, lookup_stream, start_batch, copies_ahead;
  std::optional<std::string> cache_load_factor, cache_policy;
  StreamArguments stream;
  std::optional<std::string> data, test, format, model;
  std::optional<std::string> epochs, malformed, examples;
  std::optional<std::string> seed, batch_size, steps, save_every;
  std::optional<std::string> save, load, timeline, record, snapshot;
  ResultArguments results;
  bool order_lookup_after_dense = false, stash_gradients = false;
  bool free_batch_early = false, clear_exchanged = false, free_features_early = false;
  bool evaluate_only = false, freeze_tables = false, check_races = false;
};

enum class DataKind { synthetic, adult, adult_file, criteo };

struct DataOptions {
  DataKind kind = DataKind::synthetic;
  std::string name;            ///< "synthetic", "adult", "criteo"; also names its built-in model
  std::filesystem::path path;  ///< a folder (adult) or a file
  std::optional<std::filesystem::path> test;
  std::uint64_t malformed = 100;  ///< number of malformed lines that are accepted
  std::uint64_t examples = 0;     ///< examples in an epoch of synthetic data
};

enum class GroupKind { none, threads, mpi, nccl };
/** @brief The groups that --group accepts. */
inline constexpr std::array kGroupKinds{GroupKind::threads, GroupKind::mpi, GroupKind::nccl};
[[nodiscard]] std::string_view to_string(GroupKind group) noexcept;

/** @brief The ranks that train together. */
struct RankOptions {
  GroupKind group = GroupKind::none;
  std::optional<unsigned> ranks;  ///< the value of --ranks; with processes, the required number
  std::string sharding = "auto";  ///< "auto", or a name for `parse_sharding`
  std::optional<std::filesystem::path> plan;        ///< replaces `sharding` for its tables
  std::optional<std::filesystem::path> rendezvous;  ///< for NCCL; replaces torchrun's address
  unsigned process = 0;                             ///< rank of this process, with `rendezvous`
};

/** @brief The checked options. */
struct TrainOptions {
  RankOptions ranks;
  TrainingOptions training;
  DataOptions data;
  std::optional<std::string> model;
  std::optional<TableCache> cache;  ///< if set, the tables are in host memory
  StreamOptions stream;
  std::uint64_t epochs = 3;
  std::optional<std::uint64_t> steps;  ///< limit for the whole run
  std::optional<std::size_t> batch_size;
  std::optional<std::uint64_t> seed, save_every;
  std::optional<std::filesystem::path> save, load;
  bool evaluate_only = false, freeze_tables = false;
};

/** @throws UsageError */
[[nodiscard]] TrainOptions read_options(const TrainArguments& arguments);

}  // namespace millrace::cli
