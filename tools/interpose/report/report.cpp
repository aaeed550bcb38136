#include "report/report.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "millrace/interop/run_model.hpp"
#include "millrace/observe/driver_model.hpp"
#include "millrace/observe/report.hpp"
#include "millrace/observe/trace/write_snapshot.hpp"
#include "millrace/observe/what_if.hpp"
#include "millrace/text/units.hpp"

namespace millrace::interpose {
namespace {

using Json = nlohmann::ordered_json;

struct CallLine {
  Function function;
  std::uint64_t made, passed, refused;
};

std::vector<CallLine> calls_of(const Process& process) {
  std::vector<CallLine> lines;
  for (std::size_t i = 0; i < kFunctions; ++i) {
    const CallCount& count = process.calls[i];
    if (count.made == 0) continue;
    lines.push_back({static_cast<Function>(i), count.made, count.passed, count.refused});
  }
  return lines;
}

bool is_worth_a_line(const ShareStatistics& share) {
  return share.allocated.peak != 0 || share.cached != 0;
}

/** Figures of memory that a reset ended, and of the memory at the end. */
std::vector<GpuFigures> all_figures(const Process& process) {
  std::vector<GpuFigures> all;
  for (const EndedMemory& ended : process.ended()) all.push_back(ended.figures);
  for (Gpu* const gpu : process.gpus()) all.push_back(figures_of(*gpu));
  return all;
}

/** Whether this is the GPU's last entry. Only the last one shows results of the recording, because
 * they cover the whole run. */
bool is_last(const std::vector<GpuFigures>& all, const GpuFigures& gpu) {
  return std::none_of(&gpu + 1, all.data() + all.size(),
                      [&](const GpuFigures& later) { return later.ordinal == gpu.ordinal; });
}

/** Explains the figures of a program with PyTorch, which allocates large segments and divides them
 * itself; nullptr without PyTorch or without figures. */
const char* about_pytorch(const Process& process) {
  if (!pytorch_is_loaded() || (process.gpus().empty() && process.ended().empty())) return nullptr;
  const char* const on = std::getenv("MILLRACE_TORCH");
  if (on != nullptr && *on != '\0' && std::strcmp(on, "0") != 0) {
    return "PyTorch's tensors are on Millrace's allocator (MILLRACE_TORCH), and are not in these "
           "figures: torch.cuda.memory_stats() has theirs";
  }
  return "PyTorch's allocator requests segments and divides them itself, so these figures are not "
         "what Millrace saves; for PyTorch's tensors: MILLRACE_TORCH=1 (docs/python.md)";
}

/** The recording at the end of the process. */
struct EndOfRun {
  explicit EndOfRun(const Process& process) : recorder(process.recorder()) {
    if (recorder == nullptr) return;
    try {
      log = recorder->log();
    } catch (const std::exception&) {  // too long to be read here, or no memory
    }
  }

  /** The bytes that the program's own calls would have reserved; nothing if the requests do not fit
   * into the modeled GPU. */
  [[nodiscard]] std::optional<DriverModel> own_calls(const GpuFigures& gpu) const {
    if (!log) return std::nullopt;
    try {
      return model_driver(*log, static_cast<std::uint32_t>(gpu.ordinal), gpu.memory_bytes);
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  // A longer log takes too long here. `millrace replay` models it.
  static constexpr std::size_t kMostEvents = 20'000;

  /** Free bytes of Millrace's allocator that waited for work, by stream; nothing if unknown. */
  [[nodiscard]] std::optional<std::vector<WhatIfStranded>> stranded(const GpuFigures& gpu) const {
    if (!log || log->events.size() > kMostEvents) return std::nullopt;
    try {
      return stranded_bytes(*log, static_cast<std::uint32_t>(gpu.ordinal), gpu.policy);
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  /** The range of the peak in a run on Millrace's allocator; nothing if the log is not complete. */
  [[nodiscard]] std::optional<ModeledRun> run(const GpuFigures& gpu) const {
    if (!log || recorder->left_out() != 0) return std::nullopt;
    const std::size_t found = gpu.statistics.bytes.reserved.peak;
    try {
      ModeledRun model =
          model_run(*log, static_cast<std::uint32_t>(gpu.ordinal), gpu.available_bytes, gpu.policy);
      model.least = std::min(model.least, found);
      model.most = std::max(model.most, found);
      return model;
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  /** The savings by stream and site. */
  [[nodiscard]] std::optional<WhatIf> what_if(const GpuFigures& gpu) const {
    if (!log || log->events.size() > kMostEvents) return std::nullopt;
    try {
      return millrace::what_if(*log, static_cast<std::uint32_t>(gpu.ordinal),
                               {.most_events_of_sites = 1'000});
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  const Recorder* const recorder;
  std::optional<trace::AllocationLog> log;
};

/** The recording's results for a GPU. */
struct ModeledGpu {
  std::optional<ModeledRun> run;  ///< these two if the program keeps its own allocator
  std::optional<WhatIf> what_if;
  std::optional<DriverModel> own_calls;  ///< these two otherwise
  std::optional<std::vector<WhatIfStranded>> stranded;
};

struct GpuReport {
  GpuFigures figures;
  bool is_last = false;  ///< the GPU's last entry, which alone has `modeled`
  ModeledGpu modeled;
};

ModeledGpu model(const GpuFigures& gpu, const EndOfRun& recorded, bool what_if) {
  ModeledGpu modeled;
  if (!what_if) {
    modeled.own_calls = recorded.own_calls(gpu);
    modeled.stranded = recorded.stranded(gpu);
    return modeled;
  }
  modeled.run = recorded.run(gpu);
  modeled.what_if = recorded.what_if(gpu);
  if (modeled.what_if) modeled.what_if->run = modeled.run;
  return modeled;
}

/** The contents of the report, for all formats. */
struct Report {
  Report(const Process& of, const char* ended) : process(of), ended_by(ended), recorded(of) {
    const std::vector<GpuFigures> all = all_figures(of);
    for (const GpuFigures& gpu : all) {
      GpuReport& added = gpus.emplace_back();
      added.figures = gpu;
      added.is_last = is_last(all, gpu);
      if (added.is_last) added.modeled = model(gpu, recorded, of.settings.what_if);
    }
  }

  [[nodiscard]] bool has_trace() const {
    return recorded.recorder != nullptr && !recorded.recorder->file().empty();
  }
  [[nodiscard]] std::size_t calls_left_out() const { return recorded.recorder->left_out(); }

  const Process& process;
  const char* const ended_by;
  const EndOfRun recorded;
  std::vector<GpuReport> gpus;
};

/** The figures of one GPU, with the names in docs/accounting.md. */
Json document_of(const GpuReport& of, const Report& report) {
  const GpuFigures& gpu = of.figures;
  const ModeledGpu& modeled = of.modeled;
  MemoryStatistics all = gpu.statistics;
  std::erase_if(all.streams, [](const ShareStatistics& share) { return !is_worth_a_line(share); });
  Json document = nlohmann::json(all);
  document["gpu"] = gpu.ordinal;
  document["was_reset"] = gpu.was_reset;
  document["stranded_bytes"] = gpu.stranded;
  document["out_of_memory"] = {{"requests", gpu.out_of_memory.requests},
                               {"largest_bytes", gpu.out_of_memory.largest}};
  if (report.process.settings.what_if) {
    document["own_peak_bytes"] = gpu.own_peak;
    document["run"] = nullptr;
    document["what_if"] = nullptr;
    if (const auto& run = modeled.run)
      document["run"] = {{"least_bytes", run->least}, {"most_bytes", run->most}};
    if (modeled.what_if) document["what_if"] = nlohmann::json(*modeled.what_if);
    return document;
  }
  document["stranded"] = nullptr;
  document["own_calls"] = nullptr;
  if (modeled.stranded) {
    document["stranded"] = Json::array();
    for (const WhatIfStranded& each : *modeled.stranded) {
      document["stranded"].push_back(
          {{"stream", each.stream}, {"waits_for", each.waits_for}, {"bytes", each.bytes}});
    }
  }
  if (const auto& own = modeled.own_calls) {
    document["own_calls"] = {{"least_bytes", own->least},
                             {"most_bytes", own->most},
                             {"calls_left_out", report.calls_left_out()}};
  }
  return document;
}

Json document_of(const Report& report) {
  const Process& process = report.process;
  const char* const ended_by = report.ended_by;
  Json gpus = Json::array(), calls = Json::array();
  for (const GpuReport& gpu : report.gpus) gpus.push_back(document_of(gpu, report));
  for (const CallLine& line : calls_of(process)) {
    calls.push_back({{"name", to_string(line.function)},
                     {"made", line.made},
                     {"passed", line.passed},
                     {"refused", line.refused}});
  }
  return {
      {"schema", "millrace.run/1"},
      {"allocator", process.settings.what_if ? "own" : "millrace"},
      {"trace", report.has_trace() ? Json(report.recorded.recorder->file()) : Json(nullptr)},
      {"gpus", gpus},
      {"ended_by", ended_by == nullptr ? Json(nullptr) : Json(ended_by)},
      {"allocating_threads", process.allocating_threads()},
      {"pytorch", about_pytorch(process) == nullptr ? Json(nullptr) : Json(about_pytorch(process))},
      {"calls", calls}};
}

std::string size(std::size_t bytes) { return fmt::format("{:.1f} MiB", in_mib(bytes)); }

/** For example "36.0 MiB" or "36.0 to 48.0 MiB". */
std::string size(std::size_t least, std::size_t most) {
  if (size(least) == size(most)) return size(least);
  return fmt::format("{:.1f} to {}", in_mib(least), size(most));
}

/** Writes the peak; a prediction is a range. */
void write_peak(std::FILE* file, const GpuFigures& gpu, const std::optional<ModeledRun>& run) {
  const MemoryGauges& bytes = gpu.statistics.bytes;
  const std::string peak =
      run ? size(run->least, run->most) : size(bytes.reserved.peak, bytes.reserved.peak);
  fmt::print(file, "  GPU {}{}: peak reserved {}, peak live {}\n", gpu.ordinal,
             gpu.was_reset ? ", until cudaDeviceReset" : "", peak, size(bytes.requested.peak));
}

void write_certainty(std::FILE* file, const Process& process,
                     const std::optional<ModeledRun>& run) {
  if (!run) {
    fmt::print(file,
               "    other timings of the GPU are not modeled: with them the peak may differ\n");
  } else if (run->least != run->most) {
    fmt::print(file,
               "    how much depends on when the GPU completes work that the program does not wait "
               "for\n");
  }
  if (const unsigned threads = process.allocating_threads(); threads > 1) {
    fmt::print(file,
               "    {} threads allocate: if their calls come in another order, the peak may "
               "differ\n",
               threads);
  }
}

void write_own_calls(std::FILE* file, const GpuReport& gpu, const Report& report) {
  if (report.process.settings.what_if) {
    fmt::print(file, "    its own allocators reserved {}\n", size(gpu.figures.own_peak));
  } else if (const auto& own = gpu.modeled.own_calls) {
    fmt::print(file, "    its own calls would have reserved {} (modeled{})\n",
               size(own->least, own->most),
               report.calls_left_out() == 0 ? "" : ", of the first calls");
  }
}

void write_stranded(std::FILE* file, const std::optional<std::vector<WhatIfStranded>>& stranded) {
  if (!stranded || stranded->empty()) return;
  fmt::print(file, "    free at the peak, and usable by no other stream (modeled):\n");
  for (const WhatIfStranded& each : *stranded) {
    fmt::print(file, "      {} of {}, until work of {}\n", size(each.bytes), each.stream,
               each.waits_for);
  }
}

void write_gpu(std::FILE* file, const GpuReport& of, const Report& report) {
  const GpuFigures& gpu = of.figures;
  const bool what_if = report.process.settings.what_if;
  const MemoryStatistics& all = gpu.statistics;
  const MemoryGauges& bytes = all.bytes;
  const MemoryCounters& counts = all.counts;
  write_peak(file, gpu, of.modeled.run);
  if (what_if && of.is_last) write_certainty(file, report.process, of.modeled.run);
  write_own_calls(file, of, report);
  fmt::print(file, "    at the {}: reserved {}, live {}, free {}, of which {} wait for work\n",
             gpu.was_reset ? "reset" : "end", size(bytes.reserved.current),
             size(bytes.requested.current), size(bytes.cached.current), size(gpu.stranded));
  fmt::print(file,
             "    {} allocations: {} from the stream's own memory, {} from another stream's, {} "
             "after a wait, {} from new memory\n",
             counts.allocations, counts.served_own, counts.served_ordered, counts.served_waited,
             counts.served_grown);
  if (const Gpu::OutOfMemory& failed = gpu.out_of_memory; failed.requests != 0) {
    fmt::print(file, "    out of memory: {} request{}, the largest of {}\n", failed.requests,
               failed.requests == 1 ? "" : "s", size(failed.largest));
  }
  for (const ShareStatistics& share : all.streams) {
    if (!is_worth_a_line(share)) continue;
    fmt::print(file, "    {}: peak live {}, free at the {} {}\n", share.name,
               size(share.allocated.peak), gpu.was_reset ? "reset" : "end", size(share.cached));
  }
  if (!of.is_last) return;
  if (!what_if) return write_stranded(file, of.modeled.stranded);
  if (of.modeled.what_if) {
    fmt::print(file, "{}", to_string(*of.modeled.what_if));
  } else {
    fmt::print(file,
               "    by stream and site: --record FILE, then millrace replay --what-if FILE\n");
  }
}

void write_text(std::FILE* file, const Report& report) {
  const Process& process = report.process;
  fmt::print(file, "millrace run: the program on {}\n",
             process.settings.what_if ? "its own allocator; with Millrace's it would have been:"
                                      : "Millrace's allocator");
  if (report.ended_by != nullptr) fmt::print(file, "  the program ended by {}\n", report.ended_by);
  for (const GpuReport& gpu : report.gpus) write_gpu(file, gpu, report);
  if (const char* const hint = about_pytorch(process)) fmt::print(file, "  {}\n", hint);
  if (report.has_trace())
    fmt::print(file, "  its trace is in {}\n", report.recorded.recorder->file());
  for (const CallLine& line : calls_of(process)) {
    fmt::print(file, "    {:12} {}", line.made, to_string(line.function));
    if (line.passed != 0) fmt::print(file, ", {} of them served by the runtime", line.passed);
    if (line.refused != 0) fmt::print(file, ", {} of them failed", line.refused);
    fmt::print(file, "\n");
  }
}

}  // namespace

void write_snapshot(const std::string& file, const Process& process) {
  trace::TorchSnapshot whole;
  for (const EndedMemory& ended : process.ended()) {
    if (process.find(ended.figures.ordinal) == nullptr) append(whole, ended.snapshot);
  }
  for (Gpu* const gpu : process.gpus()) append(whole, gpu->memory().snapshot());
  const std::string own = file + '.' + std::to_string(getpid());
  const std::string unfinished = own + '~';
  const auto fail = [&](int error) {
    unlink(unfinished.c_str());
    throw std::system_error{error, std::generic_category(), file};
  };
  errno = 0;
  std::ofstream out{unfinished, std::ios::binary};
  out << trace::write_torch_snapshot(whole);
  out.close();
  if (!out) fail(errno == 0 ? EIO : errno);
  if (link(unfinished.c_str(), file.c_str()) == 0) {
    unlink(unfinished.c_str());
    return;
  }
  // Some file systems have no hard links. There, an empty file reserves the name.
  const int taken = errno == EEXIST ? -1 : open(file.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0666);
  if (taken >= 0) close(taken);
  const std::string& place = taken >= 0 ? file : own;
  if (std::rename(unfinished.c_str(), place.c_str()) != 0) fail(errno);
}

void write_report(Process& process, const char* ended_by, const std::vector<ReportFile>& files) {
  if (files.empty()) return;
  const Report report{process, ended_by};
  for (const ReportFile& of : files) {
    if (of.as_json) {
      fmt::print(of.file, "{}\n", document_of(report).dump(2));
    } else {
      write_text(of.file, report);
    }
  }
}

}  // namespace millrace::interpose
