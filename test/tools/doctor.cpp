#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "doctor/findings.hpp"
#include "millrace/config.hpp"
#include "millrace/streamer/sink_kinds.hpp"
#include "test/support/catch.hpp"
#include "test/tools/program.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

GpuFacts h200(const std::string& bus) {
  GpuFacts gpu;
  gpu.info.title = "NVIDIA H200";
  gpu.info.pci_bus = bus;
  gpu.info.compute_major = 9;
  gpu.info.memory_bytes = std::size_t{140} << 30;
  gpu.info.copy_engines = 3;
  gpu.info.virtual_memory = true;
  gpu.info.page_bytes = std::size_t{2} << 20;
  gpu.info.memory_pools = true;
  gpu.state.memory = {std::size_t{100} << 30, std::size_t{140} << 30};
  gpu.state.code = 90;
  return gpu;
}

MachineFacts machine_of(std::vector<GpuFacts> gpus) {
  MachineFacts facts;
  facts.cuda = {.toolkit = 13000, .runtime = 13000, .driver = 13000};
  facts.architectures = {80, 90};
  facts.driver.library = {"libcuda.so.1", "/usr/lib/libcuda.so.580.65.06", "580.65.06", ""};
  facts.driver.cuda = 13000;
  facts.driver.module = "580.65.06";
  facts.cublas = {"libcublas.so.13", "/usr/lib/libcublas.so.13.0.2.14", "13.0.2.14", ""};
  facts.nccl = {"libnccl.so.2", "/usr/lib/libnccl.so.2.27.3", "2.27.3", ""};
  facts.peers.assign(gpus.size(), std::vector<bool>(gpus.size(), true));
  facts.gpus = std::move(gpus);
  return facts;
}

MachineFacts machine_without_gpu(const std::string& reason) {
  MachineFacts facts = machine_of({});
  facts.no_gpu = reason;
  return facts;
}

/// The report as one line with single blanks, so that line breaks do not matter.
std::string report_of(const MachineFacts& facts) {
  std::string text;
  for (const char character : cli::to_text(facts)) {
    const bool blank = character == ' ' || character == '\n';
    if (!blank) text += character;
    if (blank && !text.empty() && text.back() != ' ') text += ' ';
  }
  return text;
}

cli::DeviceChoice choice(const MachineFacts& facts, const std::string& name) {
  for (const cli::DeviceChoice& device : cli::device_choices(facts)) {
    if (device.name == name) return device;
  }
  FAIL("no choice " << name);
  return {};
}

}  // namespace

TEST_CASE("doctor succeeds on any machine and reports what works there") {
  const ProgramRun run = run_program({"doctor"});
  CHECK(run.exit_code == 0);
  CHECK(run.err.empty());
  CHECK_THAT(run.out, ContainsSubstring("CUDA toolkit") && ContainsSubstring("NVIDIA driver") &&
                          ContainsSubstring("NCCL") && ContainsSubstring("virtual:h200  works"));
}

TEST_CASE("the document of doctor agrees with the program") {
  const ProgramRun run = run_program({"doctor", "--format", "json"});
  REQUIRE(run.exit_code == 0);
  const auto document = nlohmann::json::parse(run.out);
  CHECK(document.at("schema") == "millrace.doctor/1");
  CHECK(document.at("version") == MILLRACE_VERSION);
  CHECK(document.at("build").at("cuda") == (MILLRACE_HAS_CUDA == 1));
  CHECK(document.at("gpus").size() == static_cast<std::size_t>(cuda_device_count().count));
  for (const auto& device : document.at("devices")) {
    INFO(device.dump());
    CHECK(device.at("works") == device.at("problem").is_null());
    if (device.at("works") == true) continue;
    const ProgramRun refused = run_program({"footprint", "--device", device.at("name")});
    CHECK(refused.exit_code == 2);
  }
}

TEST_CASE("doctor lists all kinds of sinks, with a remedy for each that is not built") {
  const ProgramRun run = run_program({"doctor", "--format", "json"});
  REQUIRE(run.exit_code == 0);
  std::vector<std::string> built;
  const auto document = nlohmann::json::parse(run.out);
  for (const auto& sink : document.at("sinks")) {
    CHECK(sink.at("built") == sink.at("remedy").is_null());
    if (sink.at("built") == true) built.push_back(sink.at("name"));
  }
  for (const SinkKind& kind : sink_kinds()) {
    INFO(kind.name);
    CHECK(kind.built() == (std::ranges::find(built, kind.name) != built.end()));
  }
  CHECK(document.at("sinks").size() == sink_kinds().size());
}

TEST_CASE("doctor can write its findings to a file") {
  const ScratchFolder scratch;
  const auto file = scratch / "doctor.json";
  const ProgramRun run = run_program({"doctor", "--format", "json", "-o", file.string()});
  CHECK(run.exit_code == 0);
  CHECK(run.out.empty());
  CHECK(nlohmann::json::parse(read_file(file)).at("schema") == "millrace.doctor/1");
}

TEST_CASE("doctor refuses an unknown format") {
  const ProgramRun run = run_program({"doctor", "--format", "xml"});
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, ContainsSubstring("'xml'") && ContainsSubstring("text, json"));
}

TEST_CASE("doctor describes a machine with GPUs") {
  const std::string text = report_of(machine_of({h200("0000:1b:00.0"), h200("0000:2b:00.0")}));
  CHECK_THAT(text, ContainsSubstring("CUDA toolkit 13.0") && ContainsSubstring("sm_80, sm_90"));
  CHECK_THAT(text, ContainsSubstring("NVIDIA driver 580.65.06, serves CUDA up to 13.0"));
  CHECK_THAT(text, ContainsSubstring("cuda:1 NVIDIA H200, compute capability 9.0") &&
                       ContainsSubstring("0000:2b:00.0") &&
                       ContainsSubstring("140.00 GiB, 100.00 GiB of it free") &&
                       ContainsSubstring("in pages of 2.00 MiB"));
  CHECK_THAT(text, ContainsSubstring("kernels for sm_90 run on it"));
  CHECK_THAT(text, ContainsSubstring("each GPU can use the memory of each other"));
  CHECK_THAT(text, ContainsSubstring("NCCL 2.27.3"));
  CHECK_THAT(text, ContainsSubstring("cuda:0 works: NVIDIA H200"));
}

TEST_CASE("doctor lists peer access for each GPU if only some have it") {
  MachineFacts facts = machine_of({h200("a"), h200("b"), h200("c")});
  facts.peers = {{true, true, false}, {true, true, false}, {false, false, true}};
  CHECK_THAT(report_of(facts), ContainsSubstring("cuda:0 reaches cuda:1; cuda:1 reaches cuda:0; "
                                                 "cuda:2 reaches none"));
  facts.peers.assign(3, std::vector<bool>(3, false));
  CHECK_THAT(report_of(facts), ContainsSubstring("no GPU can use the memory of another"));
}

TEST_CASE("a GPU without kernels in the build does not work, and the remedy is a build for it") {
  MachineFacts facts = machine_of({h200("a")});
  facts.gpus[0].info.compute_major = 7;
  facts.gpus[0].info.compute_minor = 5;
  facts.gpus[0].state.code = 0;
  facts.gpus[0].state.code_problem = facts.gpus[0].problem = "no kernel image";
  const cli::DeviceChoice gpu = choice(facts, "cuda:0");
  CHECK_FALSE(gpu.works);
  CHECK_THAT(gpu.remedy, ContainsSubstring("-DCMAKE_CUDA_ARCHITECTURES=75"));
  CHECK_THAT(report_of(facts), ContainsSubstring("no kernel image"));
}

TEST_CASE("doctor says that the driver compiles kernels for a GPU newer than the build") {
  MachineFacts facts = machine_of({h200("a")});
  facts.gpus[0].info.compute_major = 10;
  facts.gpus[0].state.code = 100;
  CHECK(choice(facts, "cuda:0").works);
  CHECK_THAT(report_of(facts), ContainsSubstring("the driver compiles this build's kernels") &&
                                   ContainsSubstring("-DCMAKE_CUDA_ARCHITECTURES=100"));
}

TEST_CASE("without cuBLAS a GPU works except for training, with a remedy") {
  MachineFacts facts = machine_of({h200("a")});
  CHECK(choice(facts, "cuda:0").trains);
  CHECK(cli::to_document(facts)["devices"].back()["trains"] == true);
  facts.cublas = {"libcublas.so.13", "", "", "libcublas.so.13: no such file"};
  const cli::DeviceChoice gpu = choice(facts, "cuda:0");
  CHECK(gpu.works);
  CHECK_FALSE(gpu.trains);
  CHECK_THAT(gpu.lacking, ContainsSubstring("no such file"));
  CHECK_THAT(gpu.training_remedy, ContainsSubstring("MILLRACE_CUBLAS"));
  CHECK_THAT(report_of(facts),
             ContainsSubstring("but train does not work: cuBLAS cannot be loaded"));
  CHECK(choice(facts, "virtual:h200").trains);
  const auto document = cli::to_document(facts);
  CHECK(document["cublas"]["problem"] == "libcublas.so.13: no such file");
  CHECK(document["devices"].back()["works"] == true);
  CHECK(document["devices"].back()["trains"] == false);
}

TEST_CASE("doctor says what needs NCCL, whether NCCL is present or not") {
  MachineFacts facts = machine_of({h200("a")});
  CHECK_THAT(report_of(facts), ContainsSubstring("which train --group nccl uses"));
  facts.nccl = {"libnccl.so.2", "", "", "libnccl.so.2: no such file"};
  CHECK_THAT(report_of(facts), ContainsSubstring("train --group nccl needs it") &&
                                   ContainsSubstring("MILLRACE_NCCL"));
}

TEST_CASE("a GPU that is busy does not work and is described as far as known") {
  MachineFacts facts = machine_of({h200("a")});
  facts.gpus[0].state = {};
  facts.gpus[0].problem = "all CUDA-capable devices are busy";
  CHECK_FALSE(choice(facts, "cuda:0").works);
  CHECK_THAT(report_of(facts), ContainsSubstring("NVIDIA H200") && ContainsSubstring("are busy") &&
                                   !ContainsSubstring("of it free"));
}

TEST_CASE("the remedy for a missing GPU depends on what is missing") {
  MachineFacts facts = machine_without_gpu("no driver");
  facts.driver = {{"libcuda.so.1", "", "", "not found"}, 0, ""};
  CHECK_THAT(choice(facts, "cuda:0").remedy, ContainsSubstring("driver of version 580 or newer"));

  SECTION("the kernel module is present without the library, as in a container") {
    facts.driver.module = "580.65.06";
    CHECK_THAT(choice(facts, "cuda:0").remedy, ContainsSubstring("--gpus all"));
  }
  SECTION("the driver is too old") {
    facts.driver = {{"libcuda.so.1", "/lib/libcuda.so.535.1", "535.1", ""}, 12020, "535.1"};
    CHECK(choice(facts, "cuda:0").remedy == "an NVIDIA driver of version 580 or newer");
  }
  SECTION("CUDA 12 needs only an older driver") {
    facts.cuda.toolkit = 12040;
    CHECK_THAT(choice(facts, "cuda:0").remedy, ContainsSubstring("version 525 or newer"));
  }
  SECTION("the driver shows no GPU") {
    facts.driver = machine_of({}).driver;
    CHECK_THAT(choice(facts, "cuda:0").remedy, ContainsSubstring("CUDA_VISIBLE_DEVICES"));
  }
  SECTION("the build has no CUDA") {
    facts.cuda = {};
    CHECK_THAT(choice(facts, "cuda:0").remedy, ContainsSubstring("CUDA toolkit"));
    CHECK_THAT(report_of(facts), ContainsSubstring("built without one"));
  }
}

TEST_CASE("a driver whose library and module differ is reported") {
  MachineFacts facts = machine_without_gpu("version mismatch");
  facts.driver.module = "570.124.06";
  CHECK_THAT(report_of(facts), ContainsSubstring("570.124.06: the two have to be the same"));
}

TEST_CASE("doctor --runtime counts the functions that it lists, in text and as JSON") {
  const ProgramRun run = run_program({"doctor", "--runtime", "--format", "json"});
  REQUIRE(run.exit_code == 0);
  const auto document = nlohmann::json::parse(run.out);
  CHECK(document.at("schema") == "millrace.doctor.runtime/1");
  const std::string text = run_program({"doctor", "--runtime"}).out;
  std::vector<std::string> names;
  for (const auto& library : document.at("libraries")) {
    names.push_back(library.at("name"));
    std::map<std::string, int> counts{
        {"real", 0}, {"approximate", 0}, {"no-op", 0}, {"refused", 0}};
    for (const auto& function : library.at("functions")) {
      ++counts.at(function.at("capability"));
      CAPTURE(function.dump());
      CHECK_THAT(text, ContainsSubstring('\n' + function.at("name").get<std::string>() + ' '));
    }
    CHECK(library.at("counts") == nlohmann::json(counts));
  }
  CHECK(names == std::vector<std::string>{"libcudart", "libcuda", "libcublas", "libcublasLt"});
}

TEST_CASE("doctor --runtime lists only functions with the given name") {
  const auto names_of = [](const std::string& pattern) {
    const auto document = nlohmann::json::parse(
        run_program({"doctor", "--runtime", "--functions", pattern, "--format", "json"}).out);
    std::vector<std::string> names;
    for (const auto& library : document.at("libraries"))
      for (const auto& function : library.at("functions")) names.push_back(function.at("name"));
    return names;
  };
  CHECK(names_of("cudaMemPoolTrim*") == std::vector<std::string>{"cudaMemPoolTrimTo"});
  CHECK(names_of("PoolTrim") == std::vector<std::string>{"cudaMemPoolTrimTo", "cuMemPoolTrimTo"});
  const ProgramRun none = run_program({"doctor", "--runtime", "--functions", "cudaTeleport"});
  CHECK(none.exit_code != 0);
  CHECK_THAT(none.err, ContainsSubstring("no function of CUDA is called 'cudaTeleport'"));
  CHECK(run_program({"doctor", "--functions", "cudaMalloc"}).exit_code != 0);
}

TEST_CASE("doctor --runtime prints a note as one paragraph") {
  const std::string text =
      run_program({"doctor", "--runtime", "--functions", "cudaDeviceEnablePeerAccess"}).out;
  CHECK_THAT(text, ContainsSubstring(
                       "\n    copies do not need it; kernels only if their host implementation "));
}

TEST_CASE("doctor --runtime says what a function lacks") {
  const auto document =
      nlohmann::json::parse(run_program({"doctor", "--runtime", "--format", "json"}).out);
  const auto& driver = document.at("libraries").at(1).at("functions");
  const auto alloc = std::ranges::find_if(
      driver, [](const auto& function) { return function.at("name") == "cuMemAlloc"; });
  REQUIRE(alloc != driver.end());
  CHECK(alloc->at("capability") == "refused");
  CHECK(alloc->at("note") == "the parameters of CUDA 3");
  CHECK(alloc->at("since") == 2000);
}
