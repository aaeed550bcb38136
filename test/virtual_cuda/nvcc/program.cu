// A program that nvcc compiles, like any other: it knows nothing of Millrace. Its results are those
// of a GPU if kernels.cpp is loaded, which implements its kernel on the host.

#include <cstdio>

__device__ int counter = 0;
__managed__ int managed_value = 0;

__global__ void scale(float* values, float factor, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] *= factor;
}

namespace {

int wrong(const char* what, int found) {
  std::printf("%s: %d\n", what, found);
  return 1;
}

}  // namespace

int main() {
  constexpr int kCount = 1000;
  cudaStream_t stream = nullptr;
  float* device = nullptr;
  float* host = nullptr;
  if (cudaStreamCreate(&stream) != cudaSuccess) return wrong("cudaStreamCreate", 0);
  if (cudaMallocAsync(&device, kCount * sizeof(float), stream) != cudaSuccess)
    return wrong("cudaMallocAsync", 0);
  if (cudaMallocHost(&host, kCount * sizeof(float)) != cudaSuccess)
    return wrong("cudaMallocHost", 0);
  for (int i = 0; i < kCount; ++i) host[i] = static_cast<float>(i);
  cudaMemcpyAsync(device, host, kCount * sizeof(float), cudaMemcpyHostToDevice, stream);
  for (int i = 0; i < 3; ++i) scale<<<(kCount + 255) / 256, 256, 0, stream>>>(device, 2.0F, kCount);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
    return wrong("the launch", error);
  cudaMemcpyAsync(host, device, kCount * sizeof(float), cudaMemcpyDeviceToHost, stream);
  cudaFreeAsync(device, stream);
  if (const cudaError_t error = cudaStreamSynchronize(stream); error != cudaSuccess)
    return wrong("cudaStreamSynchronize", error);

  int value = 5;
  if (cudaMemcpyToSymbol(counter, &value, sizeof value) != cudaSuccess)
    return wrong("cudaMemcpyToSymbol", 0);
  value = 0;
  if (cudaMemcpyFromSymbol(&value, counter, sizeof value) != cudaSuccess || value != 5)
    return wrong("cudaMemcpyFromSymbol", value);
  managed_value = 4;
  if (managed_value != 4) return wrong("the managed variable", managed_value);
  cudaFuncAttributes attributes{};
  if (const cudaError_t error = cudaFuncGetAttributes(&attributes, scale); error != cudaSuccess)
    return wrong("cudaFuncGetAttributes", error);
  std::printf("%g %g\n", static_cast<double>(host[1]), static_cast<double>(host[kCount - 1]));
  return 0;
}
