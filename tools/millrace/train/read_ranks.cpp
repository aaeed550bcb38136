#include "train/read_ranks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "cli/choices.hpp"
#include "cli/error.hpp"
#include "cli/suggestions.hpp"
#include "cli/values.hpp"
#include "millrace/pipeline/collective/mpi_group.hpp"
#include "millrace/pipeline/collective/nccl_group.hpp"
#include "millrace/text/parse_number.hpp"

namespace millrace::cli {
namespace {

constexpr unsigned kMostTrainingRanks = 1024;

std::optional<unsigned> from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : text::parse_number<unsigned>(value);
}

/** Without a group, each of several processes would train alone and write the same files. */
void refuse_strangers() {
  struct Launcher {
    const char* size;
    const char* name;
    const char* group;
  };
  for (const Launcher& launcher : {Launcher{"OMPI_COMM_WORLD_SIZE", "mpirun", "mpi"},
                                   Launcher{"WORLD_SIZE", "torchrun", "nccl"}}) {
    const auto size = from_environment(launcher.size);
    if (!size || *size < 2) continue;
    throw UsageError{
        fmt::format("{} has started {} processes, but --group does not say that they train "
                    "together",
                    launcher.name, *size),
        launcher.size, fmt::format("--group {}", launcher.group)};
  }
}

void check_there(GroupKind group) {
  if (group == GroupKind::mpi && !mpi_support().built) {
    throw UsageError{"this build has no MPI", "--group mpi", mpi_support().how_to_get};
  }
  if (group == GroupKind::nccl && !nccl_support().loaded) {
    const NcclSupport support = nccl_support();
    throw UsageError{support.problem, "--group nccl", support.how_to_get};
  }
}

void read_rendezvous(const TrainArguments& given, RankOptions& options) {
  if (!given.rendezvous) return;
  if (options.group != GroupKind::nccl) {
    throw UsageError{"only NCCL uses a rendezvous file", "--rendezvous", "--group nccl with it"};
  }
  const auto rank = from_environment("RANK"), size = from_environment("WORLD_SIZE");
  if (!rank || !size || *rank >= *size) {
    throw UsageError{"a rendezvous file needs the rank of this process", "--rendezvous",
                     "RANK (from 0) and WORLD_SIZE in the environment"};
  }
  options.rendezvous = *given.rendezvous;
  options.process = *rank;
  options.ranks = *size;
}

void read_sharding(const TrainArguments& given, RankOptions& options) {
  if (!given.sharding) return;
  const std::vector<std::string> names = sharding_names();
  if (std::find(names.begin(), names.end(), *given.sharding) != names.end()) {
    options.sharding = *given.sharding;
  } else if (std::filesystem::is_regular_file(*given.sharding)) {
    options.plan = *given.sharding;
  } else {
    throw UsageError{
        fmt::format("'{}' is neither a sharding nor a file", *given.sharding), "--sharding",
        did_you_mean(
            *given.sharding, names,
            fmt::format("{}, or a JSON file as docs/sharding.md says", fmt::join(names, ", ")))};
  }
}

}  // namespace

std::vector<std::string> sharding_names() {
  std::vector<std::string> names = text::names_of(millrace::kShardings);
  names.insert(names.begin(), "auto");
  return names;
}

std::string_view to_string(GroupKind group) noexcept {
  switch (group) {
    case GroupKind::none:
      return "none";
    case GroupKind::threads:
      return "threads";
    case GroupKind::mpi:
      return "mpi";
    case GroupKind::nccl:
      return "nccl";
  }
  return "?";
}

RankOptions read_ranks(const TrainArguments& given) {
  RankOptions options;
  if (given.group) {
    options.group = read_choice("--group", "process group", *given.group, kGroupKinds);
  } else if (given.ranks || given.sharding) {
    options.group = GroupKind::threads;
  }
  if (options.group == GroupKind::none || options.group == GroupKind::threads) refuse_strangers();
  check_there(options.group);
  if (options.group == GroupKind::nccl) NcclGroup::prepare_process();  // before any CUDA call
  if (given.ranks) {
    options.ranks =
        static_cast<unsigned>(read_whole("--ranks", *given.ranks, 1, kMostTrainingRanks));
  }
  read_rendezvous(given, options);
  read_sharding(given, options);
  return options;
}

std::string device_name(const TrainArguments& given, const RankOptions& ranks) {
  const bool nccl = ranks.group == GroupKind::nccl;
  std::string name = given.device.value_or(nccl ? kLocalDevice : "virtual:h200");
  if (name == kLocalDevice) {
    const auto local = from_environment("OMPI_COMM_WORLD_LOCAL_RANK");
    name = fmt::format("cuda:{}", local ? *local : from_environment("LOCAL_RANK").value_or(0));
  }
  const bool gpu = name.starts_with("cuda:");
  if (nccl && !gpu) {
    throw UsageError{fmt::format("NCCL needs a GPU, and {} is not a GPU", name), "--device",
                     "cuda:local, which is the default with --group nccl"};
  }
  if (ranks.group == GroupKind::threads && gpu) {
    throw UsageError{"ranks of one process need virtual devices", "--device",
                     "virtual:h200, or a process for each GPU: --group nccl or mpi"};
  }
  return name;
}

}  // namespace millrace::cli
