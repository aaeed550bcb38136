#pragma once

#include <memory>

#include "millrace/device/cuda_device.hpp"
#include "millrace/device/stream.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/pipeline/model/model_context.hpp"
#include "test/gpu_calls/fake/fake.hpp"
#include "test/support/model_bench.hpp"

namespace millrace::test {

/// Resets the stand-ins and returns one of their GPUs.
[[nodiscard]] inline std::unique_ptr<CudaDevice> stand_in(int ordinal = 0) {
  fake::reset();
  return CudaDevice::create(ordinal);
}

/// The context in which a model runs, on the second of two stand-in GPUs.
struct CallBench {
  std::unique_ptr<CudaDevice> gpu = stand_in(1);
  OrderedDevice ordered{*gpu};
  Stream main{ordered, {.name = "main"}};
  DeviceSource source{*gpu};
  CachingAllocator allocator{ordered, source, Policy::millrace()};
  ModelContext context{allocator, main};
  ModelMemory memory{allocator, main};
};

}  // namespace millrace::test
