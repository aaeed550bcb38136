#pragma once

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

/// What the cases of this program share. They know nothing of Millrace.

namespace program {

constexpr std::size_t kMiB = std::size_t{1} << 20;

inline void expect(cudaError_t found, cudaError_t expected, const char* what) {
  if (found == expected) return;
  std::fprintf(stderr, "%s gave %s in place of %s\n", what, cudaGetErrorName(found),
               cudaGetErrorName(expected));
  std::_Exit(9);
}

inline void check(cudaError_t found, const char* what) { expect(found, cudaSuccess, what); }

inline cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return stream;
}

inline unsigned char* allocate(std::size_t bytes) {
  void* block = nullptr;
  check(cudaMalloc(&block, bytes), "cudaMalloc");
  return static_cast<unsigned char*>(block);
}

inline unsigned char* allocate(std::size_t bytes, cudaStream_t stream) {
  void* block = nullptr;
  check(cudaMallocAsync(&block, bytes, stream), "cudaMallocAsync");
  return static_cast<unsigned char*>(block);
}

/// True if the whole block has this value. Nothing may use the block any more.
inline bool holds(const unsigned char* block, std::size_t bytes, unsigned char value) {
  auto* const seen = static_cast<unsigned char*>(std::malloc(bytes));
  check(cudaMemcpy(seen, block, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  bool all = true;
  for (std::size_t i = 0; i < bytes; ++i) all = all && seen[i] == value;
  std::free(seen);
  return all;
}

int random_data(unsigned seed);
int random_data_in_threads();
int mixed(unsigned seed);
int everywhere();
int reused_after_an_event();
int event_recorded_by_the_driver();

int captured();
int free_in_a_capture();

}  // namespace program
