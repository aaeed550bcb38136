// stress [--device cuda:N] [THREADS [SECONDS [SEED]]]: see test/stress/soak.hpp. Ends with 4 if it
// finds no GPU to run on.

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "millrace/device/cuda_device.hpp"
#include "test/stress/soak.hpp"

namespace {

using namespace millrace;

int run(test::Soak options, const char* preset) {
  const test::SoakResult result = test::soak(options);
  fmt::print("{:9} {} steps, {} generations of threads, {} reads checked, {} out of memory\n",
             preset, result.steps, result.generations, result.checked, result.out_of_memory);
  if (result.corrupted != 0) fmt::print("CORRUPTED: {} reads\n", result.corrupted);
  if (result.left_bytes != 0) fmt::print("LEFT: {} bytes\n", result.left_bytes);
  if (!result.failure.empty()) fmt::print("FAILED: {}\n", result.failure);
  return result.corrupted == 0 && result.left_bytes == 0 && result.failure.empty() ? 0 : 1;
}

unsigned long argument(const std::vector<std::string>& given, std::size_t place,
                       unsigned long otherwise) {
  return place < given.size() ? std::stoul(given[place]) : otherwise;
}

/// Removes the option `--device` from the arguments and returns its GPU.
std::optional<int> read_gpu(std::vector<std::string>& given) {
  if (given.size() < 2 || given[0] != "--device") return std::nullopt;
  const std::string name = given[1], number = name.substr(std::min<std::size_t>(5, name.size()));
  if (name.rfind("cuda:", 0) != 0 || number.empty() || number.size() > 3 ||
      number.find_first_not_of("0123456789") != std::string::npos) {
    throw std::invalid_argument{"--device " + name + " is not a GPU; right: cuda:0"};
  }
  given.erase(given.begin(), given.begin() + 2);
  return std::stoi(number);
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> given{argv + 1, argv + argc};
  test::Soak options;
  options.gpu = read_gpu(given);
  options.threads = static_cast<unsigned>(argument(given, 0, 4));
  options.time = std::chrono::milliseconds{500 * argument(given, 1, 2)};
  options.seed = argument(given, 2, 1);
  if (const CudaDeviceCount gpus = cuda_device_count(); options.gpu && gpus.count == 0) {
    fmt::print(stderr, "stress: nothing to run on: {}\n", gpus.reason);
    return 4;
  }
  fmt::print("{} threads, seed {}\n", options.threads, options.seed);
  options.policy = Policy::torch();
  const int torch = run(options, "torch:");
  options.policy = Policy::millrace();
  options.policy.large_segment_least = std::size_t{8} << 20;
  options.policy.large_segment_most = std::size_t{16} << 20;
  return run(options, "millrace:") + torch == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception& error) {
  fmt::print(stderr, "stress [--device cuda:N] THREADS SECONDS SEED: {}\n", error.what());
  return 2;
}
