#include "doctor/findings.hpp"

#include <fmt/format.h>

#include <string_view>

#include "millrace/device/profile.hpp"

namespace millrace::cli {
namespace {

/** The oldest driver for each major version, from CUDA's release notes. */
constexpr int kDriverOfCuda13 = 580;
constexpr int kDriverOfCuda12 = 525;

int driver_needed(int toolkit) { return toolkit >= 13000 ? kDriverOfCuda13 : kDriverOfCuda12; }

std::string no_gpu_remedy(const MachineFacts& facts) {
  if (facts.cuda.toolkit == 0) {
    return "build with a CUDA toolkit (12.0 or newer, nvcc on the PATH)";
  }
  std::string driver =
      fmt::format("an NVIDIA driver of version {} or newer", driver_needed(facts.cuda.toolkit));
  if (!facts.driver.library.problem.empty()) {
    return facts.driver.module.empty()
               ? fmt::format(
                     "a GPU, and {}; in a container, start it with the GPUs "
                     "(docker run --gpus all)",
                     driver)
               : "the driver's library libcuda.so.1 where the loader looks; in a container, start "
                 "it with the GPUs (docker run --gpus all)";
  }
  if (facts.driver.cuda / 1000 < facts.cuda.toolkit / 1000) return driver;
  if (facts.driver.module.empty()) return "a GPU, and the driver's kernel module (modprobe nvidia)";
  return "a GPU that this process may use: see CUDA_VISIBLE_DEVICES and nvidia-smi";
}

std::string gpu_remedy(const GpuFacts& gpu) {
  if (gpu.state.code_problem.empty()) return "see nvidia-smi for what holds or ails it";
  return fmt::format("build with -DCMAKE_CUDA_ARCHITECTURES={}{}", gpu.info.compute_major,
                     gpu.info.compute_minor);
}

}  // namespace

std::string version_text(int cuda) {
  return cuda == 0 ? "" : fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
}

std::string nccl_remedy(const MachineFacts& facts) {
  if (facts.nccl.problem.empty()) return "";
  return "install libnccl2 from NVIDIA's CUDA repository, or nvidia-nccl from PyPI; put the folder "
         "of "
         "libnccl.so.2 on LD_LIBRARY_PATH, or name the file in MILLRACE_NCCL";
}

std::string cublas_remedy(const MachineFacts& facts) {
  if (facts.cublas.problem.empty()) return "";
  const int version = facts.cuda.toolkit / 1000;
  return fmt::format(
      "install libcublas-{0}-x from NVIDIA's CUDA repository, or nvidia-cublas from PyPI; put the "
      "folder of libcublas.so.{0} on LD_LIBRARY_PATH, or name the file in MILLRACE_CUBLAS",
      version);
}

std::vector<DeviceChoice> device_choices(const MachineFacts& facts) {
  std::vector<DeviceChoice> choices;
  for (const std::string& name : DeviceProfile::names()) {
    choices.push_back(
        {.name = "virtual:" + name, .title = DeviceProfile::named(name).title, .modeled = true});
  }
  for (std::size_t i = 0; i < facts.gpus.size(); ++i) {
    const GpuFacts& gpu = facts.gpus[i];
    DeviceChoice& choice = choices.emplace_back();
    choice.name = fmt::format("cuda:{}", i);
    choice.title = gpu.info.title;
    choice.works = gpu.problem.empty();
    choice.problem = gpu.problem;
    choice.trains = choice.works && facts.cublas.problem.empty();
    if (!choice.works) {
      choice.remedy = gpu_remedy(gpu);
    } else if (!choice.trains) {
      choice.lacking = fmt::format("cuBLAS cannot be loaded ({})", facts.cublas.problem);
      choice.training_remedy = cublas_remedy(facts);
    }
  }
  if (facts.gpus.empty()) {
    choices.push_back({.name = "cuda:0",
                       .works = false,
                       .problem = facts.no_gpu,
                       .remedy = no_gpu_remedy(facts),
                       .trains = false});
  }
  return choices;
}

}  // namespace millrace::cli
