#include "cli/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/page.hpp"
#include "doctor/findings.hpp"
#include "millrace/config.hpp"
#include "millrace/memory/byte_size.hpp"
#include "millrace/streamer/sink_kinds.hpp"

namespace millrace::cli {
namespace {

constexpr std::size_t kIndent = 16;

std::string line(std::string_view label, const std::string& text) {
  const std::string wrapped = wrap(text, page_width() - kIndent, 0);
  std::string lines;
  for (std::size_t begin = 0; begin < wrapped.size();) {
    const std::size_t end = std::min(wrapped.find('\n', begin), wrapped.size());
    lines += pad(begin == 0 ? label : "", kIndent, Align::left) +
             wrapped.substr(begin, end - begin) + '\n';
    begin = end + 1;
  }
  return lines;
}

std::string architectures(const std::vector<int>& list) {
  return fmt::format("sm_{}", fmt::join(list, ", sm_"));
}

std::string toolkit(const MachineFacts& facts) {
  if (facts.cuda.toolkit == 0)
    return "none: this program was built without one, and has no GPU support";
  std::string text =
      fmt::format("{}, which this program was built with, for {}", version_text(facts.cuda.toolkit),
                  architectures(facts.architectures));
  if (facts.cuda.runtime != facts.cuda.toolkit) {
    text += fmt::format("; the libcudart that it found is of {}", version_text(facts.cuda.runtime));
  }
  return text;
}

std::string driver(const DriverFacts& facts) {
  const std::string module = facts.module.empty()
                                 ? "no kernel module is loaded"
                                 : fmt::format("the kernel module is of version {}", facts.module);
  if (!facts.library.problem.empty()) {
    return fmt::format("none ({}); {}", facts.library.problem, module);
  }
  std::string text =
      fmt::format("{}, serves CUDA up to {} ({})",
                  facts.library.version.empty() ? "of unknown version" : facts.library.version,
                  version_text(facts.cuda), facts.library.path);
  if (facts.module.empty() || facts.library.version.empty()) return text + "; " + module;
  if (facts.module == facts.library.version) return text;
  return text + fmt::format("; but {}: the two have to be the same", module);
}

std::string code(const GpuFacts& gpu, const std::vector<int>& carried) {
  const int own = gpu.info.compute_major * 10 + gpu.info.compute_minor;
  if (gpu.state.code == 0) return "nothing of this build runs on it";
  const bool ready = std::find(carried.begin(), carried.end(), gpu.state.code) != carried.end();
  if (ready) {
    return fmt::format("this build's kernels for sm_{} run on it{}", gpu.state.code,
                       gpu.state.code == own ? "" : fmt::format(", an sm_{}", own));
  }
  return fmt::format(
      "the driver compiles this build's kernels for it when they are first used "
      "(-DCMAKE_CUDA_ARCHITECTURES={} spares that)",
      own);
}

std::string copies(int engines) {
  if (engines >= 2) {
    return fmt::format("{} engines: copying in, copying out and kernels can overlap", engines);
  }
  return engines == 1 ? "1 engine: one copy at a time can overlap kernels"
                      : "no engine: copies and kernels take turns";
}

std::string gpu_lines(std::size_t ordinal, const GpuFacts& gpu, const MachineFacts& facts) {
  const CudaDeviceInfo& info = gpu.info;
  const std::string name = fmt::format("cuda:{}", ordinal);
  if (info.title.empty()) return line(name, fmt::format("cannot be used: {}", gpu.problem));
  std::string text =
      line(name,
           fmt::format("{}, compute capability {}.{}, {} multiprocessors, at {}", info.title,
                       info.compute_major, info.compute_minor, info.multiprocessors, info.pci_bus));
  if (gpu.state.memory.total == 0) {
    text += line("  memory", format_bytes(info.memory_bytes));
    text += line("  problem", gpu.problem);
  } else {
    text += line("  memory", fmt::format("{}, {} of it free", format_bytes(info.memory_bytes),
                                         format_bytes(gpu.state.memory.free)));
    text += line("  code", code(gpu, facts.architectures));
  }
  text += line("  mapping",
               info.virtual_memory
                   ? fmt::format("available (VMM), in pages of {}", format_bytes(info.page_bytes))
                   : "not available (VMM): segments are allocated with cudaMalloc");
  text += line("  driver's pool", info.memory_pools
                                      ? "available (cudaMallocAsync)"
                                      : "not available: --allocator driver cannot be used");
  return text + line("  copies", copies(info.copy_engines));
}

std::vector<std::string> reached_from(const MachineFacts& facts, std::size_t from) {
  std::vector<std::string> names;
  for (std::size_t to = 0; to < facts.gpus.size(); ++to) {
    if (to != from && facts.peers[from][to]) names.push_back(fmt::format("cuda:{}", to));
  }
  return names;
}

std::string peer_access(const MachineFacts& facts) {
  if (facts.gpus.size() < 2) {
    return facts.gpus.empty() ? "none: no GPU was found" : "none: this machine has one GPU";
  }
  std::size_t reached = 0;
  std::vector<std::string> rows;
  for (std::size_t from = 0; from < facts.gpus.size(); ++from) {
    const std::vector<std::string> names = reached_from(facts, from);
    reached += names.size();
    rows.push_back(fmt::format("cuda:{} reaches {}", from,
                               names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  if (reached == 0) return "no GPU can use the memory of another: copies go through the host";
  if (reached == facts.gpus.size() * (facts.gpus.size() - 1)) {
    return "each GPU can use the memory of each other";
  }
  return fmt::format("{}", fmt::join(rows, "; "));
}

std::string nccl(const MachineFacts& facts) {
  if (facts.nccl.problem.empty()) {
    return fmt::format("{} ({}), which train --group nccl uses",
                       facts.nccl.version.empty() ? "of unknown version" : facts.nccl.version,
                       facts.nccl.path);
  }
  return fmt::format("none ({}); train --group nccl needs it, and nothing else. To have it: {}",
                     facts.nccl.problem, nccl_remedy(facts));
}

std::string cublas(const MachineFacts& facts) {
  if (facts.cuda.toolkit == 0) return "not looked for: this program has no GPU support";
  if (facts.cublas.problem.empty()) {
    return fmt::format("{} ({}), which train uses on a GPU",
                       facts.cublas.version.empty() ? "of unknown version" : facts.cublas.version,
                       facts.cublas.path);
  }
  return fmt::format("none ({}); train needs it on a GPU. To have it: {}", facts.cublas.problem,
                     cublas_remedy(facts));
}

std::string sinks() {
  std::vector<std::string_view> built;
  std::vector<std::string> absent;
  for (const SinkKind& sink : sink_kinds()) {
    if (sink.built()) {
      built.push_back(sink.name);
    } else {
      absent.push_back(
          fmt::format("{} is not in this build. To have it: {}", sink.name, sink_remedy(sink)));
    }
  }
  std::string text = fmt::format("{}", fmt::join(built, ", "));
  for (const std::string& each : absent) text += "; " + each;
  return text;
}

std::string verdict(const DeviceChoice& device) {
  if (device.works && device.modeled) {
    return fmt::format("works: a model of {}; the allocators run as on a GPU, times are modeled",
                       device.title);
  }
  if (device.works && device.trains) {
    return fmt::format("works: {}, everything is measured", device.title);
  }
  if (device.works) {
    return fmt::format(
        "works: {}, everything is measured; but train does not work: {}. To have it: {}",
        device.title, device.lacking, device.training_remedy);
  }
  return fmt::format("does not work: {}. To have it: {}", device.problem, device.remedy);
}

}  // namespace

std::string to_text(const MachineFacts& facts) {
  std::string text = line("millrace", MILLRACE_VERSION);
  text += line("CUDA toolkit", toolkit(facts));
  text += line("NVIDIA driver", driver(facts.driver));
  if (facts.gpus.empty()) text += line("GPUs", fmt::format("none: {}", facts.no_gpu));
  for (std::size_t i = 0; i < facts.gpus.size(); ++i) text += gpu_lines(i, facts.gpus[i], facts);
  text += line("peer access", peer_access(facts));
  text += line("cuBLAS", cublas(facts));
  text += line("NCCL", nccl(facts));
  text += line("sinks", sinks());
  text += "\nWhat --device can be here:\n";
  for (const DeviceChoice& device : device_choices(facts)) {
    text += line("  " + device.name, verdict(device));
  }
  return text;
}

}  // namespace millrace::cli
