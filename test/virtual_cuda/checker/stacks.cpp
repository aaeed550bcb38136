// A report shows the functions that made each of the two calls.

#include "test/virtual_cuda/checker/scene.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace millrace::test;

// Functions whose names are unchanged in a symbol table, and that no compiler merges.
extern "C" {
__attribute__((noinline)) void framework_fill(void* address, cudaStream_t stream) {
  CUDA_OK(cudaMemsetAsync(address, 1, 64, stream));
  asm volatile("");
}
__attribute__((noinline)) void step_of_first_user(void* address, cudaStream_t stream) {
  framework_fill(address, stream);
  asm volatile("");
}
__attribute__((noinline)) void step_of_second_user(void* address, cudaStream_t stream) {
  framework_fill(address, stream);
  asm volatile("");
}
}

TEST_CASE("a report has the call stack, the innermost function first", "[stacks]") {
  const Stream first, second;
  const DeviceBlock block{64};
  const Races races;
  step_of_first_user(block.get(), first);
  step_of_second_user(block.get(), second);
  REQUIRE(races.count() == 1);
  const std::string message = Races::last().message;
  CAPTURE(message);
  const auto line = [&](const std::string& function) {
    return message.find(function + " at test_virtual_cuda_checker+0x");
  };
  CHECK(line("] framework_fill") < line(" step_of_first_user"));
  CHECK(line(" step_of_first_user") < line(" step_of_second_user"));
  CHECK(line(" step_of_second_user") != std::string::npos);
  CHECK_THAT(message, ContainsSubstring("\n      step_of_"));
  CHECK_THAT(message, !ContainsSubstring("millrace::virtual_cuda::"));  // none of the checker's own
  CUDA_OK(cudaDeviceSynchronize());
}

TEST_CASE("calls from one line of a framework are distinguished by their callers", "[stacks]") {
  const Stream first, second;
  const DeviceBlock block{64};
  const std::size_t before = named_races();
  framework_fill(block.get(), first);
  step_of_first_user(block.get(), second);
  CUDA_OK(cudaDeviceSynchronize());
  framework_fill(block.get(), first);
  step_of_second_user(block.get(), second);
  CUDA_OK(cudaDeviceSynchronize());
  CHECK(named_races() == before + 2);
}
