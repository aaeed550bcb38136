// A training loop that copies the next batch on a side stream while the main stream computes.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

// What before.cpp and after.cpp do differently.
void* allocate(std::size_t bytes, cudaStream_t stream);
void release(void* address, cudaStream_t stream);

inline void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

class TrainingLoop {
 public:
  void run(int steps) {
    copy_next();
    for (int step = 0; step < steps; ++step) {
      if (step + 1 < steps) copy_next();  // while main computes
      train();
    }
    check(cudaDeviceSynchronize());
    release(weights_, main_);
    std::printf("live at most %zu MiB, GPU memory at most %zu MiB\n", most_live_ / kMiB,
                most_used_ / kMiB);
  }

 private:
  static constexpr std::size_t kMiB = std::size_t{1} << 20;
  struct Tensor {
    void* address;
    std::size_t bytes;
  };
  struct Batch {
    std::vector<Tensor> tensors;
    cudaEvent_t copied;
  };

  /** Sizes vary from batch to batch, by up to 30% up and down. */
  std::size_t about(std::size_t mib) {
    random_ = random_ * 1664525 + 1013904223;
    return mib * kMiB * (70 + (random_ >> 8) % 61) / 100;
  }

  Tensor make(std::size_t bytes, cudaStream_t stream) {
    live_ += bytes;
    most_live_ = std::max(most_live_, live_);
    const Tensor tensor{allocate(bytes, stream), bytes};
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total));
    most_used_ = std::max(most_used_, free_before_ - free);
    return tensor;
  }
  void drop(const Tensor& tensor, cudaStream_t stream) {
    live_ -= tensor.bytes;
    release(tensor.address, stream);
  }
  /** In the place of kernels: passes over a tensor. */
  void compute(const Tensor& tensor) {
    for (int i = 0; i < 4; ++i) check(cudaMemsetAsync(tensor.address, i, tensor.bytes, main_));
  }

  void copy_next() {
    Batch batch{{}, nullptr};
    for (int i = 0; i < 4; ++i) {
      const Tensor tensor = make(about(16), copy_);
      check(cudaMemcpyAsync(tensor.address, host_, tensor.bytes, cudaMemcpyHostToDevice, copy_));
      batch.tensors.push_back(tensor);
    }
    check(cudaEventCreateWithFlags(&batch.copied, cudaEventDisableTiming));
    check(cudaEventRecord(batch.copied, copy_));
    batches_.push_back(batch);
  }

  void train() {
    const Batch batch = batches_.front();
    batches_.erase(batches_.begin());
    check(cudaStreamWaitEvent(main_, batch.copied, 0));
    check(cudaEventDestroy(batch.copied));
    std::vector<Tensor> activations;
    for (int layer = 0; layer < 8; ++layer) {  // forward
      activations.push_back(make(about(32), main_));
      compute(activations.back());
    }
    for (; !activations.empty(); activations.pop_back()) {  // backward
      const Tensor gradient = make(about(16), main_);
      compute(gradient);
      drop(activations.back(), main_);
      drop(gradient, main_);
    }
    for (const Tensor& tensor : batch.tensors) drop(tensor, main_);  // main used it last
    check(cudaStreamSynchronize(main_));                             // reads the loss
  }

  static cudaStream_t stream() {
    cudaStream_t made = nullptr;
    check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    return made;
  }
  static std::size_t free_memory() {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total));
    return free;
  }
  static void* pinned(std::size_t bytes) {
    void* made = nullptr;
    check(cudaHostAlloc(&made, bytes, cudaHostAllocDefault));
    return made;
  }

  cudaStream_t main_ = stream(), copy_ = stream();
  void* const host_ = pinned(32 * kMiB);
  const std::size_t free_before_ = free_memory();
  unsigned random_ = 1;
  std::size_t live_ = 0, most_live_ = 0, most_used_ = 0;
  std::vector<Batch> batches_;
  void* const weights_ = make(64 * kMiB, main_).address;
};
