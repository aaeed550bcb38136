/// Checks by experiment what the design assumes about CUDA: docs/cuda-facts.md.

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <optional>
#include <vector>

#include "cuda_facts/fact.hpp"
#include "cuda_facts/kernels.hpp"
#include "cuda_facts/measure.hpp"
#include "millrace/device/cuda_device.hpp"
#include "result_file.hpp"

namespace millrace::facts {
namespace {

constexpr int kSkipped = 4;  // exit code: a skipped test for CTest

struct Arguments {
  int device = 0;
  bool list = false;
  std::vector<std::string> only;
  std::string json;
};

std::vector<Fact> all_facts() {
  std::vector<Fact> all;
  for (const auto part :
       {handle_facts(), order_facts(), capture_facts(), callback_facts(), blocking_facts(),
        waiting_facts(), mapping_facts(), memory_facts(), cost_facts()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

/// @throws CLI::ValidationError for an unknown id
std::vector<Fact> chosen_facts(const std::vector<std::string>& only) {
  const std::vector<Fact> all = all_facts();
  if (only.empty()) return all;
  std::vector<Fact> chosen;
  for (const std::string& id : only) {
    const auto fact =
        std::find_if(all.begin(), all.end(), [&](const Fact& each) { return each.id == id; });
    if (fact == all.end()) throw CLI::ValidationError{"--only", "no fact '" + id + "'; see --list"};
    chosen.push_back(*fact);
  }
  return chosen;
}

nlohmann::json about(int ordinal) {
  const CudaDeviceInfo info = cuda_device_info(ordinal);
  const CudaVersions versions = cuda_versions();
  return {{"name", info.title},
          {"compute_capability", fmt::format("{}.{}", info.compute_major, info.compute_minor)},
          {"memory_bytes", info.memory_bytes},
          {"multiprocessors", info.multiprocessors},
          {"copy_engines", info.copy_engines},
          {"cuda_driver", versions.driver},
          {"cuda_runtime", versions.runtime}};
}

int run(const Arguments& arguments) {
  const std::vector<Fact> facts = chosen_facts(arguments.only);
  if (arguments.list) {
    for (const Fact& fact : facts) fmt::print("{:<30} {}\n", fact.id, fact.question);
    return 0;
  }
  std::optional<bench::ResultFile> file;
  if (!arguments.json.empty()) file.emplace(arguments.json);
  if (const CudaDeviceCount devices = cuda_device_count(); devices.count == 0) {
    fmt::print(stderr, "cuda_facts: nothing can be asked: {}\n", devices.reason);
    return kSkipped;
  }
  nlohmann::json report = {{"schema", "millrace.cuda-facts/1"},
                           {"date", fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)))},
                           {"device", about(arguments.device)},
                           {"facts", nlohmann::json::array()}};
  check(cudaSetDevice(arguments.device), "cudaSetDevice", arguments.device);
  load_kernels();
  int failed = 0;
  for (const Fact& fact : facts) {
    fmt::print("{}: {}\n", fact.id, fact.question);
    std::fflush(stdout);
    try {
      settle();
      const Answer answer = fact.ask(arguments.device);
      fmt::print("    {}\n", answer.text);
      report["facts"].push_back({{"id", fact.id},
                                 {"question", fact.question},
                                 {"answer", answer.text},
                                 {"data", answer.data}});
    } catch (const DeviceError& error) {
      ++failed;
      fmt::print("    could not be asked: {}\n", error.what());
      report["facts"].push_back(
          {{"id", fact.id}, {"question", fact.question}, {"failed", error.what()}});
      if (error.sticky()) break;
    }
  }
  if (file) file->write(report.dump(2) + '\n');
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace millrace::facts

int main(int argc, char** argv) {
  millrace::facts::Arguments arguments;
  CLI::App app{"Asks a GPU what Millrace assumes about CUDA; takes about half a minute."};
  app.add_option("--device", arguments.device, "ordinal of the GPU")->check(CLI::NonNegativeNumber);
  app.add_option("--only", arguments.only, "ids of facts, see --list")->delimiter(',');
  app.add_option("--json", arguments.json, "file to write everything to");
  app.add_flag("--list", arguments.list, "print the questions and stop");
  try {
    app.parse(argc, argv);
    return millrace::facts::run(arguments);
  } catch (const CLI::Error& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "cuda_facts: {}\n", error.what());
    return 1;
  }
}
