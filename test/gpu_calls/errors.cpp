#include <cstdlib>
#include <functional>

#include "millrace/device/cuda_calls.hpp"
#include "millrace/pipeline/data/jagged_operations.hpp"
#include "millrace/pipeline/model/sparse_nn.hpp"
#include "test/gpu_calls/bench.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

// Values of cudaError_t. The test does not include CUDA's headers.
constexpr int kOutOfMemory = 2, kLaunchFailure = 719, kIllegalAddress = 700, kEcc = 214;

std::optional<ErrorCode> code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const DeviceError& error) {
    return error.code();
  }
  return std::nullopt;
}

struct Bags {
  CallBench bench;
  EmbeddingBags bags{
      bench.context, {{"t", 90, 16, Pooling::sum, {"f"}}}, {.optimizer = {OptimizerKind::adam}}};
  std::mt19937_64 random{seed()};
  HostBags drawn = draw_bags(random, {"f"}, {90}, 30, 5, false);
  KeyedJaggedTensor batch = bench.memory.upload(drawn);
  Array<float> rows{bench.allocator, 30 * 16, bench.main};
  PooledMatrix pooled{rows.data(), 16, 0};
};

}  // namespace

TEST_CASE("an error of CUDA has the same code, whichever part of Millrace made the call") {
  setenv("MILLRACE_CUBLAS", "", 1);
  for (const int error : {kOutOfMemory, kLaunchFailure, kIllegalAddress, kEcc}) {
    const auto code = code_of([&] { throw_cuda_error(error, "a call"); });
    REQUIRE(code);
    INFO("error " << error);
    {
      Bags each;
      fake::fail("cudaMalloc", error);
      CHECK(code_of([&] { static_cast<void>(each.bench.gpu->allocate(1 << 20)); }) == code);
    }
    {
      Bags each;
      fake::fail("launch", error);
      CHECK(code_of([&] {
              each.bags.look_up(each.batch, nullptr, each.pooled, each.bench.main);
            }) == code);
      CHECK(code_of([&] { each.bags.update(each.batch, nullptr, each.pooled, each.bench.main); }) ==
            code);
    }
    {
      Bags each;
      const JaggedScope scope{.memory = each.bench.allocator, .stream = each.bench.main};
      fake::fail("launch", error);
      fake::fail("cudaMemsetAsync", error);
      CHECK(code_of([&] { static_cast<void>(permute(scope, each.batch, std::vector{0UL})); }) ==
            code);
    }
  }
}

TEST_CASE("a lost device is sticky, whichever part of Millrace notices it first") {
  for (const int error : {kLaunchFailure, kIllegalAddress, kEcc}) {
    Bags each;
    fake::fail("launch", error);
    try {
      each.bags.look_up(each.batch, nullptr, each.pooled, each.bench.main);
      FAIL("nothing was thrown");
    } catch (const DeviceError& thrown) {
      CHECK(thrown.sticky());
    }
  }
}
