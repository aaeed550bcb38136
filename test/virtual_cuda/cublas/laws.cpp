// cuBLAS and cuBLASLt of the virtual runtime, with the clock of the profile h200.

#include <dlfcn.h>

#include <map>
#include <set>
#include <string>

#include "test/virtual_cuda/cublas/cublas.hpp"
#include "test/virtual_cuda/processes/words.hpp"

using namespace millrace::test;

namespace {

constexpr int kHalf = 14;          // CUDA_R_16BF
constexpr int kNotSupported = 15;  // CUBLAS_STATUS_NOT_SUPPORTED

class Handle {
 public:
  explicit Handle(cudaStream_t stream) {
    REQUIRE(cublasCreate_v2(&handle_) == 0);
    REQUIRE(cublasSetStream_v2(handle_, stream) == 0);
  }
  ~Handle() { cublasDestroy_v2(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator void*() const { return handle_; }  // NOLINT: as a handle

 private:
  void* handle_ = nullptr;
};

int multiply(void* handle, int m, int n, int k) {
  static char memory[1];
  return cublasGemmEx(handle, 0, 0, m, n, k, memory, memory, kHalf, m, memory, kHalf, k, memory,
                      memory, kHalf, m, 68, -1);
}

/// The virtual time on `stream` of the work that `enqueue` enqueues, in microseconds.
template <typename Enqueue>
double time_of(cudaStream_t stream, Enqueue enqueue) {
  const Event start{cudaEventDefault};
  const Event end{cudaEventDefault};
  CUDA_OK(cudaStreamSynchronize(stream));
  CUDA_OK(cudaEventRecord(start, stream));
  enqueue();
  CUDA_OK(cudaEventRecord(end, stream));
  CUDA_OK(cudaEventSynchronize(end));
  float milliseconds = 0;
  CUDA_OK(cudaEventElapsedTime(&milliseconds, start, end));
  return static_cast<double>(milliseconds) * 1e3;
}

struct Row {
  std::string name;
  std::string capability;
};

const std::vector<Row> kCublas{
#define MILLRACE_CUBLAS(name, capability) {#name, #capability},
#include "cublas/functions.def"
};
const std::vector<Row> kCublasLt{
#include "cublas/lt_functions.def"
#undef MILLRACE_CUBLAS
};

}  // namespace

TEST_CASE("a product takes the time of its flops, in the order of its stream") {
  const Stream stream;
  const Handle handle{stream};
  // the profile has 67 TFLOP/s
  const double expected = 2.0 * 4096 * 2048 * 1024 / 67e12 * 1e6;
  const double once = time_of(stream, [&] { CHECK(multiply(handle, 4096, 2048, 1024) == 0); });
  CHECK(once == Approx(expected).epsilon(0.05));
  const double thrice = time_of(stream, [&] {
    for (int i = 0; i < 3; ++i) CHECK(multiply(handle, 4096, 2048, 1024) == 0);
  });
  CHECK(thrice == Approx(3 * expected).epsilon(0.05));
  CHECK(multiply(handle, -1, 1, 1) == 7);  // CUBLAS_STATUS_INVALID_VALUE
}

TEST_CASE("a product of a matrix and a vector takes the time of the matrix's bytes") {
  const Stream stream;
  const Handle handle{stream};
  const auto time_of_side = [&](int side) {
    return time_of(stream, [&] { CHECK(multiply(handle, side, 1, side) == 0); });
  };
  CHECK(time_of_side(32768) == Approx(4 * time_of_side(16384)).epsilon(0.05));
  const double of_flops = 2.0 * 32768 * 32768 / 67e12 * 1e6;
  CHECK(time_of_side(32768) > 3 * of_flops);
}

TEST_CASE("a product by cuBLASLt costs as much as by cuBLAS") {
  const Stream stream;
  const Handle handle{stream};
  void* lt = nullptr;
  void* operation = nullptr;
  std::map<char, void*> layouts;
  REQUIRE(cublasLtCreate(&lt) == 0);
  REQUIRE(cublasLtMatmulDescCreate(&operation, 68, 0) == 0);
  const auto layout = [&](char name, unsigned long long rows, unsigned long long columns) {
    const int batch = 3;
    REQUIRE(cublasLtMatrixLayoutCreate(&layouts[name], kHalf, rows, columns,
                                       static_cast<long long>(rows)) == 0);
    REQUIRE(cublasLtMatrixLayoutSetAttribute(layouts[name], 5, &batch, sizeof batch) == 0);
  };
  layout('a', 1024, 4096);  // transposed
  layout('b', 1024, 2048);
  layout('d', 4096, 2048);
  const int transposed = 1;
  REQUIRE(cublasLtMatmulDescSetAttribute(operation, 3, &transposed, sizeof transposed) == 0);
  int kept = 0;
  std::size_t bytes = 0;
  REQUIRE(cublasLtMatmulDescGetAttribute(operation, 3, &kept, sizeof kept, &bytes) == 0);
  CHECK((kept == 1 && bytes == sizeof kept));
  CHECK(cublasLtMatmulDescGetAttribute(operation, 3, &kept, 1, &bytes) == 7);

  const double with_lt = time_of(stream, [&] {
    CHECK(cublasLtMatmul(lt, operation, &kept, &kept, layouts['a'], &kept, layouts['b'], &kept,
                         &kept, layouts['d'], &kept, layouts['d'], nullptr, nullptr, 0,
                         stream) == 0);
  });
  const double with_cublas = time_of(stream, [&] {
    for (int i = 0; i < 3; ++i) CHECK(multiply(handle, 4096, 2048, 1024) == 0);
  });
  CHECK(with_lt == Approx(with_cublas).epsilon(0.02));
  for (const auto& [name, each] : layouts) CHECK(cublasLtMatrixLayoutDestroy(each) == 0);
  CHECK(cublasLtMatmulDescDestroy(operation) == 0);
  CHECK(cublasLtDestroy(lt) == 0);
}

TEST_CASE("the host waits for a result in host memory, and not for a result on the GPU") {
  const Stream stream;
  const Handle handle{stream};
  const PinnedBlock pinned{1};
  const DeviceBlock block{1};
  CUDA_OK(cudaMemset(block.get(), 3, 1));
  CUDA_OK(cudaDeviceSynchronize());
  pinned[0] = 0;
  float result = 5;
  REQUIRE(cublasSetPointerMode_v2(handle, 1) == 0);  // pointers are on the device
  CUDA_OK(cudaMemcpyAsync(pinned.get(), block.get(), 1, cudaMemcpyDeviceToHost, stream));
  REQUIRE(cublasSdot_v2(handle, 1 << 20, nullptr, 1, nullptr, 1, &result) == 0);
  CHECK(result == 5);
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  REQUIRE(cublasSetPointerMode_v2(handle, 0) == 0);
  REQUIRE(cublasSdot_v2(handle, 1 << 20, nullptr, 1, nullptr, 1, &result) == 0);
  CHECK(result == 0);
  CHECK(pinned[0] == 3);
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("a status has the name of the headers and a description") {
  CHECK(std::string{cublasGetStatusName(7)} == "CUBLAS_STATUS_INVALID_VALUE");
  CHECK(std::string{cublasLtGetStatusName(15)} == "CUBLAS_STATUS_NOT_SUPPORTED");
  for (int status = -1; status < 20; ++status) {
    REQUIRE(cublasGetStatusName(status) != nullptr);
    REQUIRE(cublasLtGetStatusString(status) != nullptr);
    CHECK(std::string{cublasGetStatusString(status)} == cublasLtGetStatusString(status));
    CHECK(std::string{cublasGetStatusString(status)} != "");
  }
}

TEST_CASE("cuBLAS reports the same version by number and by property") {
  int version = 0;
  REQUIRE(cublasGetVersion_v2(nullptr, &version) == 0);
  int part[3] = {};
  for (int property = 0; property < 3; ++property) {
    REQUIRE(cublasGetProperty(property, &part[property]) == 0);
    int of_lt = -1;
    REQUIRE(cublasLtGetProperty(property, &of_lt) == 0);
    CHECK(of_lt == part[property]);
  }
  CHECK(part[0] * 10000 + part[1] * 100 + part[2] == version);
  CHECK(cublasGetProperty(3, part) == 7);
  int runtime = 0;
  CUDA_OK(cudaRuntimeGetVersion(&runtime));
  CHECK(cublasGetCudartVersion() == static_cast<std::size_t>(runtime));
}

TEST_CASE("cublasLtDisableCpuInstructionsSetMask returns the previous mask") {
  const unsigned before = cublasLtDisableCpuInstructionsSetMask(1);
  CHECK(before == 0);
  CHECK(cublasLtDisableCpuInstructionsSetMask(before) == 1);
}

#ifdef __x86_64__
TEST_CASE("a number that cuBLAS does not compute is 0") { CHECK(cublasSasum(1, nullptr, 1) == 0); }
#endif

TEST_CASE("functions that return a pointer or a size are all implemented") {
  const std::set<std::string> others{
      "cublasGetStatusName",    "cublasGetStatusString",
      "cublasLtGetStatusName",  "cublasLtGetStatusString",
      "cublasGetCudartVersion", "cublasLtGetCudartVersion",
      "cublasLtGetVersion",     "cublasLtDisableCpuInstructionsSetMask"};
  for (const auto* const rows : {&kCublas, &kCublasLt})
    for (const Row& row : *rows)
      if (others.contains(row.name)) CHECK(row.capability == "real");
}

TEST_CASE("a cuBLAS function that is not implemented is refused") {
  const Stream stream;
  const Handle handle{stream};
  float result = 0;
  CHECK(cublasSasum_v2(handle, 1, nullptr, 1, &result) == kNotSupported);
}

TEST_CASE("cuBLAS exports the functions of its tables under its version node") {
  if (words_of_command("command -v nm").empty()) SKIP("no nm: the exports cannot be listed");
  const std::map<std::string, const std::vector<Row>*> libraries{
      {MILLRACE_CUBLAS_13, &kCublas},
      {MILLRACE_CUBLAS_12, &kCublas},
      {MILLRACE_CUBLASLT_13, &kCublasLt},
      {MILLRACE_CUBLASLT_12, &kCublasLt},
  };
  for (const auto& [file, rows] : libraries) {
    CAPTURE(file);
    const std::string node = file.substr(file.rfind("libcublas"));
    std::set<std::string> expected{node};
    for (const Row& row : *rows) expected.insert(row.name + "@@" + node);
    CHECK(words_of_command("nm -D --defined-only --format=posix '" + file + "'") == expected);
  }
}
