/// main() of the benchmarks that need a GPU. It exits with 4 without a GPU, like cuda_facts.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "gpu/gpu.hpp"
#include "millrace/device/cuda_device.hpp"

namespace millrace::bench {
namespace {

constexpr int kSkipped = 4;

std::string written_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

void describe_gpu(int ordinal) {
  const CudaDeviceInfo info = cuda_device_info(ordinal);
  const CudaVersions versions = cuda_versions();
  benchmark::AddCustomContext("gpu", info.title);
  benchmark::AddCustomContext("cuda_driver", written_version(versions.driver));
  benchmark::AddCustomContext("cuda_runtime", written_version(versions.runtime));
}

int run(const std::string& program, bool list_only) {
  register_benchmarks();
  if (!list_only) {
    if (const CudaDeviceCount devices = cuda_device_count(); devices.count == 0) {
      fmt::print(stderr, "{}: nothing to run on: {}\n", program, devices.reason);
      return kSkipped;
    }
    describe_gpu(chosen_gpu());
    check(cudaSetDevice(chosen_gpu()), "cudaSetDevice", chosen_gpu());
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

/// The arguments in the form that Google Benchmark takes.
struct Arguments {
  std::vector<std::string> texts;
  std::vector<char*> values;
  int count = 0;
  bool list_only = false;
};

/// Replaces `--json FILE` by two options of Google Benchmark.
Arguments read(int argc, char** argv) {
  Arguments read;
  for (int i = 0; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--json" && i + 1 < argc) {
      read.texts.push_back(fmt::format("--benchmark_out={}", argv[++i]));
      read.texts.emplace_back("--benchmark_out_format=json");
      continue;
    }
    read.list_only |= argument.rfind("--benchmark_list_tests", 0) == 0;
    read.texts.push_back(argument);
  }
  for (std::string& text : read.texts) read.values.push_back(text.data());
  read.count = static_cast<int>(read.values.size());
  read.values.push_back(nullptr);
  return read;
}

}  // namespace

int chosen_gpu() {
  const char* const given = std::getenv("MILLRACE_GPU");
  return given == nullptr ? 0 : std::stoi(given);
}

int run_main(int argc, char** argv) {
  const std::string path = argv[0];
  const std::string program = path.substr(path.find_last_of('/') + 1);
  Arguments arguments = read(argc, argv);
  benchmark::Initialize(&arguments.count, arguments.values.data());
  if (benchmark::ReportUnrecognizedArguments(arguments.count, arguments.values.data())) return 2;
  try {
    return run(program, arguments.list_only);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return 1;
  }
}

}  // namespace millrace::bench

int main(int argc, char** argv) { return millrace::bench::run_main(argc, argv); }
