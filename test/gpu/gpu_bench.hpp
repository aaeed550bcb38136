#pragma once

#include <memory>
#include <stdexcept>

#include "test/gpu/support.hpp"
#include "test/support/catch.hpp"
#include "test/support/model_bench.hpp"

namespace millrace::test {

/// The context in which a model runs on a GPU.
struct GpuBench {
  std::unique_ptr<CudaDevice> gpu = require_gpu();
  OrderedDevice ordered{*gpu};
  Stream main{ordered, {.name = "main"}};
  DeviceSource source{*gpu};
  CachingAllocator allocator{ordered, source, Policy::millrace()};
  ModelContext context{allocator, main};
  ModelMemory memory{allocator, main};

  void require_blas() {
    try {
      static_cast<void>(context.blas(main));
    } catch (const std::runtime_error& error) {
      SKIP(error.what());
    }
  }
};

}  // namespace millrace::test
