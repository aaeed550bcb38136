// Runs the training loop of `millrace footprint` on a GPU with PyTorch's own caching allocator and
// with Millrace's, in one process. Program, sizes and streams are the same.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>

#include "millrace/device/cuda_device.hpp"
#include "millrace/experiment/footprint.hpp"
#include "millrace/memory/byte_size.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/pipeline/schedule/run_memory.hpp"
#include "millrace/text/parse_enum.hpp"
#include "millrace/text/units.hpp"
#include "result_file.hpp"
#include "torch/torch_allocator.hpp"

namespace {

using namespace millrace;

constexpr int kSkipped = 4;  // exit code: a skipped test for CTest

struct Arguments {
  int device = 0;
  std::string shim, workload = "sparse_data_dist_base", batch_bytes = "1GiB", json;
  std::size_t steps = 12;
  std::uint64_t seed = 1;
  std::vector<std::string> copies{"side-stream", "in-place"};
};

struct Row {
  std::string allocator, strategy;
  experiment::LoopReport loop;
};

/** The loop on PyTorch's allocator. Pinned memory comes from Millrace. */
Row run_on_torch(const Arguments& arguments, const experiment::Workload& workload,
                 CopyMethod method, const std::vector<InputShape>& batches) {
  const auto gpu = CudaDevice::create(arguments.device);
  OrderedDevice ordered{*gpu};
  PinnedSource pinned_source{*gpu};
  CachingAllocator pinned{ordered, pinned_source, Policy::pinned()};
  TorchAllocator torch{ordered, arguments.device, arguments.shim};
  experiment::EventClock clock{*gpu};
  experiment::LoopOptions options;
  options.method = method;
  return {"PyTorch " + torch.version(), std::string{to_string(method)},
          experiment::run_training_loop(workload, batches,
                                        {.device = ordered,
                                         .allocator = torch,
                                         .batches = torch,
                                         .pinned = pinned,
                                         .clock = clock,
                                         .most_launches_ahead = workload.run_ahead},
                                        options)};
}

Row run_on_ours(const Arguments& arguments, const experiment::Workload& workload,
                std::string_view allocator, CopyMethod method,
                const std::vector<InputShape>& batches) {
  experiment::FootprintCell cell;
  cell.device = fmt::format("cuda:{}", arguments.device);
  cell.allocator = allocator;
  cell.loop.method = method;
  return {std::string{allocator}, std::string{to_string(method)},
          experiment::run_footprint(cell, workload, batches).loop};
}

std::vector<Row> run(const Arguments& arguments) {
  const experiment::Workload workload =
      experiment::Workload::named(arguments.workload).scaled_to(parse_bytes(arguments.batch_bytes));
  const auto batches = experiment::draw_batches(workload, arguments.steps, arguments.seed);
  std::vector<Row> rows;
  for (const std::string& strategy : arguments.copies) {
    const CopyMethod method = text::parse_enum("copy strategy", strategy, kCopyMethods);
    if (!arguments.shim.empty()) rows.push_back(run_on_torch(arguments, workload, method, batches));
    for (const std::string_view allocator : kAllocatorNames) {
      rows.push_back(run_on_ours(arguments, workload, allocator, method, batches));
    }
  }
  return rows;
}

nlohmann::json to_json(const Row& row) {
  const MemoryGauges& bytes = row.loop.whole;
  return {{"allocator", row.allocator},
          {"strategy", row.strategy},
          {"peak_reserved_bytes", bytes.reserved.peak},
          {"peak_active_bytes", bytes.active.peak},
          {"peak_allocated_bytes", bytes.allocated.peak},
          {"peak_requested_bytes", bytes.requested.peak},
          {"mean_step_ms", in_milliseconds(row.loop.mean_step)},
          {"h2d_hidden", row.loop.h2d_hidden}};
}

void print(const Row& row) {
  fmt::print("{:<18} {:<12} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>7.1f}%\n", row.allocator,
             row.strategy, in_gib(row.loop.whole.reserved.peak), in_gib(row.loop.whole.active.peak),
             in_gib(row.loop.whole.allocated.peak), in_milliseconds(row.loop.mean_step),
             100 * row.loop.h2d_hidden);
}

void write(const std::vector<Row>& rows, const Arguments& arguments,
           const bench::ResultFile& file) {
  nlohmann::json document{{"schema", "millrace.torch-footprint/1"},
                          {"workload", arguments.workload},
                          {"batch_bytes", arguments.batch_bytes},
                          {"steps", arguments.steps},
                          {"seed", arguments.seed},
                          {"rows", nlohmann::json::array()}};
  for (const Row& row : rows) document["rows"].push_back(to_json(row));
  file.write(document.dump(2) + '\n');
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"The loop of `millrace footprint` on PyTorch's own allocator and on Millrace's"};
  app.add_option("--device", arguments.device, "ordinal of the GPU");
  app.add_option("--shim", arguments.shim,
                 "PyTorch's allocator, as bench/torch/peer.py compiles it; default: without it");
  app.add_option("--workload", arguments.workload, "a workload that ships");
  app.add_option("--batch-bytes", arguments.batch_bytes, "mean size of a batch");
  app.add_option("--steps", arguments.steps, "steps of a run, the first 4 warm-up");
  app.add_option("--seed", arguments.seed, "seed of the batches' sizes");
  app.add_option("--copy", arguments.copies, "copy strategies")->delimiter(',');
  app.add_option("--json", arguments.json, "file for the results");
  CLI11_PARSE(app, argc, argv);
  try {
    std::optional<bench::ResultFile> file;
    if (!arguments.json.empty()) file.emplace(arguments.json);
    if (const CudaDeviceCount gpus = cuda_device_count(); gpus.count == 0) {
      fmt::print(stderr, "torch_footprint: nothing to run on: {}\n", gpus.reason);
      return kSkipped;
    }
    fmt::print(
        "allocator          strategy      reserved    active     alloc   step ms   hidden\n");
    const std::vector<Row> rows = run(arguments);
    for (const Row& row : rows) print(row);
    if (file) write(rows, arguments, *file);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "torch_footprint: {}\n", error.what());
    return 1;
  }
}
