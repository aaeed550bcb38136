// stress [THREADS [SECONDS [SEED]]]: see test/stress/soak.hpp.

#include <fmt/core.h>

#include <cstdlib>
#include <exception>
#include <string>

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

unsigned long argument(int argc, char** argv, int place, unsigned long otherwise) {
  return place < argc ? std::stoul(argv[place]) : otherwise;
}

}  // namespace

int main(int argc, char** argv) try {
  test::Soak options;
  options.threads = static_cast<unsigned>(argument(argc, argv, 1, 4));
  options.time = std::chrono::milliseconds{500 * argument(argc, argv, 2, 2)};
  options.seed = argument(argc, argv, 3, 1);
  fmt::print("{} threads, seed {}\n", options.threads, options.seed);
  options.policy = Policy::torch();
  const int torch = run(options, "torch:");
  options.policy = Policy::millrace();
  options.policy.large_segment_least = std::size_t{8} << 20;
  options.policy.large_segment_most = std::size_t{16} << 20;
  return run(options, "millrace:") + torch == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception& error) {
  fmt::print("stress THREADS SECONDS SEED: {}\n", error.what());
  return 2;
}
