#include <cstdlib>
#include <optional>

#include "test/gpu_calls/bench.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("training on one GPU makes no context on another, and never calls cudaSetDevice") {
  setenv("MILLRACE_CUBLAS", "", 1);
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam}) {
    std::optional<CallBench> bench{std::in_place};
    train_small_model(bench->context, bench->memory, bench->main, kind);
    CHECK_FALSE(fake::calls("launch").empty());
    CHECK_FALSE(fake::calls("cublasSgemm").empty());
    bench.reset();
    CHECK(fake::contexts() == std::set{1});
    CHECK(fake::calls("cudaSetDevice").empty());
  }
}

TEST_CASE("cuBLAS is called with its handle's device current, also to destroy the handle") {
  setenv("MILLRACE_CUBLAS", "", 1);
  {
    CallBench bench;
    train_small_model(bench.context, bench.memory, bench.main, OptimizerKind::sgd);
  }
  for (const char* const function : {"cublasCreate", "cublasSgemm", "cublasDestroy"}) {
    CHECK_FALSE(fake::calls(function).empty());
    for (const fake::Call& call : fake::calls(function)) {
      INFO(function);
      CHECK(call.value == 1);
    }
  }
}

TEST_CASE("a stream with the handle of a destroyed stream gets its own handle of cuBLAS") {
  setenv("MILLRACE_CUBLAS", "", 1);
  CallBench bench;
  std::optional<Stream> stream{std::in_place, bench.ordered};
  const StreamHandle first = stream->handle();
  static_cast<void>(bench.context.blas(*stream));
  static_cast<void>(bench.context.blas(*stream));
  CHECK(fake::calls("cublasCreate").size() == 1);
  stream.reset();
  stream.emplace(bench.ordered);
  REQUIRE(stream->handle().value == first.value);
  static_cast<void>(bench.context.blas(*stream));
  CHECK(fake::calls("cublasCreate").size() == 2);
}
