#include <cuda_runtime.h>

#include "millrace/device/cuda_calls.hpp"
#include "test/support/cuda/content_kernels.hpp"

namespace millrace::test {
namespace {

constexpr unsigned kThreads = 128;

__device__ void wait(std::uint64_t nanoseconds) {
  std::uint64_t begin = 0, now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    __nanosleep(200);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}

template <typename Visit>
__device__ void each_word(const SampledWords& of, Visit visit) {
  auto* const data = reinterpret_cast<volatile std::uint64_t*>(of.data);
  for (std::size_t at = threadIdx.x * of.stride; at < of.words; at += blockDim.x * of.stride) {
    visit(data[at]);
  }
  if (of.last && threadIdx.x == 0) visit(data[of.words - 1]);
}

__global__ void fill_words(SampledWords of, std::uint64_t value, std::uint64_t nanoseconds) {
  wait(nanoseconds);
  each_word(of, [&](volatile std::uint64_t& word) { word = value; });
}

__global__ void check_words(SampledWords of, std::uint64_t value, std::uint64_t nanoseconds,
                            unsigned long long* findings) {
  wait(nanoseconds);
  int differs = 0;
  each_word(of, [&](volatile std::uint64_t& word) { differs |= word != value ? 1 : 0; });
  differs = __syncthreads_or(differs);
  if (threadIdx.x != 0) return;
  atomicAdd(&findings[0], 1ULL);
  if (differs != 0) atomicAdd(&findings[1], 1ULL);
}

class Kernels final : public ContentKernels {
 public:
  explicit Kernels(int ordinal) : ordinal_(ordinal) {
    const CurrentGpu current{ordinal_};
    check_cuda(cudaMalloc(&findings_, 2 * sizeof(unsigned long long)), "cudaMalloc");
    check_cuda(cudaMemset(findings_, 0, 2 * sizeof(unsigned long long)), "cudaMemset");
  }
  ~Kernels() override {
    try {
      const CurrentGpu current{ordinal_};
      static_cast<void>(cudaFree(findings_));
    } catch (...) {  // the device is lost
    }
  }

  void fill(void* stream, const SampledWords& words, std::uint64_t value,
            std::uint64_t nanoseconds) override {
    fill_words<<<1, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(words, value, nanoseconds);
    check_cuda(cudaGetLastError(), "fill_words");
  }
  void check(void* stream, const SampledWords& words, std::uint64_t value,
             std::uint64_t nanoseconds) override {
    check_words<<<1, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(words, value, nanoseconds,
                                                                       findings_);
    check_cuda(cudaGetLastError(), "check_words");
  }
  Findings findings() override {
    const CurrentGpu current{ordinal_};
    unsigned long long read[2] = {};
    check_cuda(cudaMemcpy(read, findings_, sizeof read, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return {read[0], read[1]};
  }

 private:
  int ordinal_;
  unsigned long long* findings_ = nullptr;  ///< checked, corrupted
};

}  // namespace

std::unique_ptr<ContentKernels> make_content_kernels(int ordinal) {
  return std::make_unique<Kernels>(ordinal);
}

}  // namespace millrace::test
