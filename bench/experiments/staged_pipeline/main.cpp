// Runs batches through three stages of a StagedPipeline on a virtual H100. They are copied to the
// device, decoded and sorted, each on a separate stream, while main computes with the previous
// batch. The program writes the timeline for the picture in docs/pipelines.md. Kernel times are
// given here; times of copies, launches and waits come from the profile.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <optional>
#include <sstream>

#include "millrace/memory/caching_allocator.hpp"
#include "millrace/observe/timeline.hpp"
#include "millrace/pipeline/data/batch_tensor.hpp"
#include "millrace/pipeline/schedule/staged_pipeline.hpp"
#include "result_file.hpp"

namespace {

using namespace millrace;
using std::chrono::microseconds;

constexpr std::size_t kPacked = std::size_t{256} << 20;
constexpr std::size_t kUnpacked = 2 * kPacked;

struct Rows {
  BatchTensor packed, unpacked;

  void record_use(StreamRef stream) const {
    packed.record_use(stream);
    unpacked.record_use(stream);
  }
};

class Program {
 public:
  explicit Program(unsigned steps) : left_(steps) {}

  void run(std::ostream& file) {
    Timeline timeline;
    timeline.note("program", "experiment_staged_pipeline");
    timeline.note("device", device_.name());
    timeline.note("title", "StagedPipeline of three stages, on a virtual H100");
    timeline.attach(machine_);
    timeline.attach(device_);
    {
      StagedPipeline<Rows> pipeline{
          {{"copy", copy_, [this](Rows& rows) { to_device(rows); }},
           {"decode", decode_, [this](Rows& rows) { decode(rows); }},
           {"sort", sort_,
            [this](Rows& rows) { work("sort", microseconds{4000}, rows.unpacked, sort_); }}},
          main_};
      const auto source = [this]() -> std::optional<Rows> {
        if (left_ == 0) return std::nullopt;
        --left_;
        return Rows{};
      };
      while (const std::optional<Rows> rows = pipeline.progress(source)) {
        work("compute", microseconds{7000}, rows->unpacked, main_);
      }
    }
    ordered_.synchronize();
    timeline.stop();
    timeline.write(file);
  }

 private:
  void to_device(Rows& rows) {
    rows.packed = {memory_, kPacked, copy_};
    device_.copy(rows.packed.data(), host_.data(), kPacked, CopyKind::host_to_device,
                 copy_.handle());
  }

  void decode(Rows& rows) {
    rows.unpacked = {memory_, kUnpacked, decode_};
    device_.launch({.name = "decode",
                    .views = {{rows.packed.data(), kPacked, Access::read},
                              {rows.unpacked.data(), kUnpacked, Access::write}},
                    .cost = {.fixed = microseconds{3000}}},
                   decode_.handle());
    rows.packed = {};
  }

  void work(const char* name, Nanoseconds time, const BatchTensor& on, const Stream& stream) {
    device_.launch({.name = name,
                    .views = {{on.data(), on.bytes(), Access::read_write}},
                    .cost = {.fixed = time}},
                   stream.handle());
  }

  VirtualMachine machine_;
  VirtualDevice& device_ =
      machine_.add_device({.profile = DeviceProfile::named("h100"), .data = false});
  OrderedDevice ordered_{device_};
  Stream copy_{ordered_, {.name = "copy"}}, decode_{ordered_, {.name = "decode"}};
  Stream sort_{ordered_, {.name = "sort"}}, main_{ordered_, {.name = "main"}};
  DeviceSource source_{device_};
  PinnedSource pinned_source_{device_};
  CachingAllocator memory_{ordered_, source_, Policy::millrace()};
  CachingAllocator pinned_{ordered_, pinned_source_, Policy::pinned()};
  Buffer host_{pinned_, kPacked, copy_};
  unsigned left_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"A StagedPipeline's timeline, as JSON for Perfetto and for tools/timeline-svg.py"};
  std::string output;
  unsigned steps = 12;
  app.add_option("-o,--output", output, "FILE")->required();
  app.add_option("--steps", steps, "batches, one per step")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  try {
    const bench::ResultFile file{output};
    std::ostringstream timeline;
    Program{steps}.run(timeline);
    file.write(timeline.view());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
