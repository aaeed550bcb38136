// Kernels by name: modules and libraries that are loaded at run time.

#include <cstring>

#include "test/virtual_cuda/laws/driver.hpp"

using namespace millrace::test;

namespace {

// scale(float* to, unsigned char shift, double by, int count): to[i] = to[i] * by + shift
void scale_on_host(const MillraceLaunch* launch) {
  auto* const to =
      static_cast<float*>(virtual_cuda().data(*static_cast<void**>(launch->arguments[0])));
  const unsigned shift = *static_cast<unsigned char*>(launch->arguments[1]);
  const double by = *static_cast<double*>(launch->arguments[2]);
  const int count = *static_cast<int*>(launch->arguments[3]);
  for (int i = 0; i < count; ++i)
    to[i] = static_cast<float>(to[i] * by + static_cast<double>(shift));
}

void register_scale() {
  static constexpr std::size_t kBytes[] = {sizeof(void*), 1, sizeof(double), sizeof(int)};
  static const bool once = [] {
    MillraceKernel kernel{};
    kernel.pattern = "module_scale";
    kernel.argument_bytes = kBytes;
    kernel.argument_count = 4;
    kernel.run = scale_on_host;
    virtual_cuda().add_kernel(&kernel);
    return true;
  }();
  static_cast<void>(once);
}

class LoadedModule {
 public:
  LoadedModule() {
    CUDA_OK(cudaSetDevice(0));
    DRIVER_OK("cuModuleLoadData", &module_, static_cast<const void*>("image"));
  }
  ~LoadedModule() { driver("cuModuleUnload", module_); }
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;
  [[nodiscard]] CUfunction function(const char* name) const {
    CUfunction found = nullptr;
    DRIVER_OK("cuModuleGetFunction", &found, module_, name);
    return found;
  }

 private:
  CUmodule module_ = nullptr;
};

struct Arguments {
  void* to;
  unsigned char shift;
  double by;
  int count;
};

int launch(CUfunction function, CUstream stream, void** parameters, void** extra) {
  return driver("cuLaunchKernel", function, 1U, 1U, 1U, 32U, 1U, 1U, 0U, stream, parameters, extra);
}

std::vector<float> floats(const DeviceBlock& block) {
  std::vector<float> found(block.bytes() / sizeof(float));
  CUDA_OK(cudaMemcpy(found.data(), block.get(), block.bytes(), cudaMemcpyDeviceToHost));
  return found;
}

}  // namespace

TEST_CASE("a module's function computes in stream order, with both forms of arguments") {
  register_scale();
  const LoadedModule module;
  const CUfunction scale = module.function("module_scale");
  const Stream stream;
  const DeviceBlock block{8 * sizeof(float)};
  CUDA_OK(cudaMemsetAsync(block.get(), 0, block.bytes(), stream));
  Arguments arguments{block.get(), 3, 2.0, 8};
  void* parameters[] = {&arguments.to, &arguments.shift, &arguments.by, &arguments.count};
  REQUIRE(launch(scale, stream, parameters, nullptr) == 0);
  arguments.by = -1;  // the launch has copied the arguments
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(floats(block) == std::vector<float>(8, 3));

  Arguments packed{block.get(), 1, 2.0, 8};
  std::size_t bytes = sizeof packed;
  void* extra[] = {reinterpret_cast<void*>(1), &packed, reinterpret_cast<void*>(2), &bytes,
                   nullptr};
  REQUIRE(launch(scale, stream, nullptr, extra) == 0);
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(floats(block) == std::vector<float>(8, 7));
  CHECK(launch(scale, stream, parameters, extra) == kInvalidValue);
}

TEST_CASE("a name gives the same function until its module is unloaded") {
  only_virtual("its module has no code");
  CUfunction function = nullptr;
  {
    const LoadedModule module;
    function = module.function("silent");
    CHECK(module.function("silent") == function);
    CHECK(module.function("another") != function);
    const char* name = nullptr;
    DRIVER_OK("cuFuncGetName", &name, function);
    const char* none = nullptr;
    CHECK(driver("cuFuncGetName", &none, CUfunction{}) == kInvalidValue);
    CHECK(driver("cuKernelGetName", &none, CUkernel{}) == kInvalidValue);
    CHECK(std::string_view{name} == "silent");
    int threads = 0;
    DRIVER_OK("cuFuncGetAttribute", &threads, 0, function);
    CHECK(threads == 1024);
    CHECK(launch(function, nullptr, nullptr, nullptr) == 0);
    CHECK(driver("cuLaunchKernel", function, 1U, 1U, 1U, 2048U, 1U, 1U, 0U, CUstream{},
                 static_cast<void**>(nullptr), static_cast<void**>(nullptr)) == kInvalidValue);
  }
  CHECK(launch(function, nullptr, nullptr, nullptr) == kInvalidHandle);
}

TEST_CASE("a kernel of a library can be launched by the runtime and by the driver") {
  register_scale();
  CUlibrary library = nullptr;
  using Options = void*;
  DRIVER_OK("cuLibraryLoadData", &library, static_cast<const void*>("image"), Options{}, Options{},
            0U, Options{}, Options{}, 0U);
  CUkernel kernel = nullptr;
  DRIVER_OK("cuLibraryGetKernel", &kernel, library, "module_scale");
  CUfunction function = nullptr;
  DRIVER_OK("cuKernelGetFunction", &function, kernel);
  const Stream stream;
  const DeviceBlock block{4 * sizeof(float)};
  CUDA_OK(cudaMemsetAsync(block.get(), 0, block.bytes(), stream));
  Arguments arguments{block.get(), 2, 1.0, 4};
  void* parameters[] = {&arguments.to, &arguments.shift, &arguments.by, &arguments.count};
  CUDA_OK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3{1}, dim3{32}, parameters, 0,
                           stream));
  REQUIRE(launch(function, stream, parameters, nullptr) == 0);
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(floats(block) == std::vector<float>(4, 4));
  DRIVER_OK("cuLibraryUnload", library);
  CHECK(driver("cuLibraryGetKernel", &kernel, library, "module_scale") == kInvalidHandle);
}

TEST_CASE("the block size that the driver proposes fills a multiprocessor") {
  only_virtual("its module has no code");
  const LoadedModule module;
  const CUfunction function = module.function("sized");
  int grid = 0;
  int block = 0;
  using BlockToBytes = std::size_t (*)(int);
  DRIVER_OK("cuOccupancyMaxPotentialBlockSize", &grid, &block, function, BlockToBytes{},
            std::size_t{0}, 0);
  CHECK(block == 1024);
  int blocks = 0;
  DRIVER_OK("cuOccupancyMaxActiveBlocksPerMultiprocessor", &blocks, function, block,
            std::size_t{0});
  CHECK(blocks * block == 2048);
  CHECK(grid % blocks == 0);
  DRIVER_OK("cuOccupancyMaxPotentialBlockSize", &grid, &block, function, BlockToBytes{},
            std::size_t{0}, 100);
  CHECK(block <= 100);
}

TEST_CASE("a graph that the driver builds runs its nodes in the order of its edges") {
  const DeviceBlock block{64};
  const PinnedBlock seen{64};
  std::memset(seen.get(), 0, 64);
  CUgraph graph = nullptr;
  CUgraphNode fill = nullptr;
  CUgraphNode copy = nullptr;
  DRIVER_OK("cuGraphCreate", &graph, 0U);
  CUDA_OK(cudaSetDevice(0));
  cudaMemsetParams bytes{};
  bytes.dst = block.get();
  bytes.value = 8;
  bytes.elementSize = 1;
  bytes.width = 64;
  bytes.height = 1;
  using Nodes = const CUgraphNode*;
  DRIVER_OK("cuGraphAddMemsetNode", &fill, graph, Nodes{}, std::size_t{0}, &bytes,
            static_cast<void*>(nullptr));
  CUDA_MEMCPY3D box{};
  box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = address_of(block.get());
  box.dstMemoryType = CU_MEMORYTYPE_HOST;
  box.dstHost = seen.get();
  box.WidthInBytes = 64;
  box.Height = box.Depth = 1;
  DRIVER_OK("cuGraphAddMemcpyNode", &copy, graph, static_cast<Nodes>(&fill), std::size_t{1}, &box,
            static_cast<void*>(nullptr));
  std::size_t count = 0;
  DRIVER_OK("cuGraphGetNodes", graph, static_cast<CUgraphNode*>(nullptr), &count);
  CHECK(count == 2);
  CUDA_MEMCPY3D found{};
  DRIVER_OK("cuGraphMemcpyNodeGetParams", copy, &found);
  CHECK(found.srcDevice == box.srcDevice);
  CHECK(found.WidthInBytes == 64);
  CUgraphExec executable = nullptr;
  DRIVER_OK("cuGraphInstantiateWithFlags", &executable, graph, 0ULL);
  const Stream stream;
  DRIVER_OK("cuGraphLaunch", executable, static_cast<CUstream>(stream));
  DRIVER_OK("cuStreamSynchronize", static_cast<CUstream>(stream));
  CHECK(seen[63] == 8);
  DRIVER_OK("cuGraphExecDestroy", executable);
  DRIVER_OK("cuGraphDestroy", graph);
}
