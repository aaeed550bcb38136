#include "engine/report.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "check/checker.hpp"
#include "engine/kernels.hpp"
#include "table/driver.hpp"
#include "table/functions.hpp"

namespace millrace::virtual_cuda {
namespace {

struct StreamLine {
  std::uint64_t id;
  unsigned device;
  std::uint64_t operations;
  std::size_t peak;
};

constexpr std::size_t kMostLines = 20;

// Guarded by the engine's lock.
std::vector<StreamLine>& ended_streams() {
  static auto* const lines = new std::vector<StreamLine>;
  return *lines;
}

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

void write_pools(std::FILE* file, const std::vector<cudaMemPool_t>& pools) {
  for (const cudaMemPool_t pool : pools)
    if (pool->attributes.reserved_high != 0)
      std::fprintf(file, "    %s: peak reserved %.1f MiB, peak used %.1f MiB\n",
                   pool->is_default ? "default pool" : "a pool of the program",
                   mebibytes(pool->attributes.reserved_high),
                   mebibytes(pool->attributes.used_high));
}

void write_memory(std::FILE* file, Runtime& runtime) {
  for (const auto& gpu : runtime.gpus) {
    std::fprintf(file, "  GPU %u (%s): peak memory %.1f MiB, in use at exit %.1f MiB\n",
                 gpu->ordinal, gpu->profile.title.c_str(),
                 mebibytes(runtime.memory.peak(gpu->ordinal)),
                 mebibytes(runtime.memory.used(gpu->ordinal)));
    write_pools(file, gpu->pools);
  }
  std::fprintf(file, "  pinned and managed host memory: peak %.1f MiB\n",
               mebibytes(runtime.memory.peak_pinned_bytes()));
  write_pools(file, runtime.host_pools);
}

void write_streams(std::FILE* file, Runtime& runtime) {
  std::vector<StreamLine> lines = ended_streams();
  for (const auto& gpu : runtime.gpus) {
    const auto add = [&](const CUstream_st& stream) {
      if (stream.operations != 0 || stream.peak_allocated != 0)
        lines.push_back({stream.id, gpu->ordinal, stream.operations, stream.peak_allocated});
    };
    add(gpu->legacy);
    for (const CUstream_st* const stream : gpu->streams) add(*stream);
  }
  std::stable_sort(lines.begin(), lines.end(), [](const StreamLine& a, const StreamLine& b) {
    return std::pair{a.peak, a.operations} > std::pair{b.peak, b.operations};
  });
  for (std::size_t i = 0; i < std::min(lines.size(), kMostLines); ++i)
    std::fprintf(file, "  stream %llu of GPU %u%s: %llu operations, peak pool memory %.1f MiB\n",
                 static_cast<unsigned long long>(lines[i].id), lines[i].device,
                 lines[i].id == 1 ? " (legacy)" : "",
                 static_cast<unsigned long long>(lines[i].operations), mebibytes(lines[i].peak));
  if (lines.size() > kMostLines)
    std::fprintf(file, "  %zu more streams\n", lines.size() - kMostLines);
}

/** @param calls  numbers of calls, by function. @param whose  empty, or " by" and the caller */
void write_calls(std::FILE* file, const std::uint64_t* calls, const char* whose) {
  std::vector<std::pair<std::uint64_t, std::string_view>> made;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < kAllFunctions; ++i) {
    total += calls[i];
    if (calls[i] != 0)
      made.emplace_back(calls[i], i < kFunctions ? functions()[i].name
                                                 : driver_functions()[i - kFunctions].symbol);
  }
  std::stable_sort(made.begin(), made.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (made.empty() && *whose != '\0') return;
  std::fprintf(file, "  %llu calls of %zu functions%s\n", static_cast<unsigned long long>(total),
               made.size(), whose);
  for (std::size_t i = 0; i < std::min(made.size(), kMostLines); ++i)
    std::fprintf(file, "    %12llu %.*s\n", static_cast<unsigned long long>(made[i].first),
                 static_cast<int>(made[i].second.size()), made[i].second.data());
  if (made.size() > kMostLines)
    std::fprintf(file, "    %zu more functions\n", made.size() - kMostLines);
}

// The report is written before static destructors unregister the kernels.
void write_uncomputed_kernels(std::FILE* file) {
  constexpr int kMostLetters = 150;
  auto kernels = uncomputed_kernels();
  if (kernels.empty()) return;
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::uint64_t total = 0;
  for (const auto& [name, launches] : kernels) total += launches;
  std::fprintf(file, "  %llu launches of %zu kernels without a host implementation\n",
               static_cast<unsigned long long>(total), kernels.size());
  for (std::size_t i = 0; i < std::min(kernels.size(), kMostLines); ++i)
    std::fprintf(file, "    %12llu %.*s\n", static_cast<unsigned long long>(kernels[i].second),
                 kMostLetters, kernels[i].first.c_str());
  if (kernels.size() > kMostLines)
    std::fprintf(file, "    %zu more kernels\n", kernels.size() - kMostLines);
}

}  // namespace

void note_stream_for_report(const CUstream_st& stream) {
  if (runtime().settings.report.empty()) return;
  if (stream.operations != 0 || stream.peak_allocated != 0)
    ended_streams().push_back({stream.id, stream.device, stream.operations, stream.peak_allocated});
}

void note_allocated(CUstream_st& stream, std::ptrdiff_t bytes) {
  stream.allocated += static_cast<std::size_t>(bytes);
  stream.peak_allocated = std::max(stream.peak_allocated, stream.allocated);
}

void write_report(Runtime& runtime) noexcept {
  const std::string& name = runtime.settings.report;
  if (name.empty()) return;
  std::FILE* const file = name == "-" ? stderr : std::fopen(name.c_str(), "w");
  if (file == nullptr) {
    std::fprintf(stderr, "millrace virtual CUDA: the report cannot be written to %s\n",
                 name.c_str());
    return;
  }
  const Lock lock{runtime.engine.mutex()};
  std::fprintf(file, "millrace virtual CUDA: schedule %s, %u GPU%s of profile %s\n",
               runtime.settings.schedule().c_str(), runtime.settings.gpus,
               runtime.settings.gpus == 1 ? "" : "s", runtime.profile.name.c_str());
  if (runtime.settings.mode == Mode::timed)
    std::fprintf(file, "  virtual time %.6f s\n",
                 static_cast<double>(runtime.engine.schedule().now().count()) / 1e9);
  if (const std::size_t pending = runtime.engine.pending().size(); pending != 0)
    std::fprintf(file, "  %zu operations had not taken effect at exit\n", pending);
  write_memory(file, runtime);
  write_streams(file, runtime);
  const std::vector<std::uint64_t> calls = calls_of_all_threads();
  write_calls(file, calls.data(), "");
  write_calls(file, calls.data() + kAllFunctions, " by Millrace");
  write_uncomputed_kernels(file);
  if (const Checker* const check = checker()) check->write_summary(file);
  if (file != stderr) std::fclose(file);
}

}  // namespace millrace::virtual_cuda
