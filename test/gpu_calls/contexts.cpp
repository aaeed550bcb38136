#include <cstdlib>
#include <optional>
#include <random>

#include "millrace/pipeline/model/sparse_nn.hpp"
#include "test/gpu_calls/bench.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

SparseNNConfig small_model(OptimizerKind kind) {
  return {
      .dense_features = 3,
      .tables = {{"user", 400, 16, Pooling::sum, {"u"}}, {"item", 60, 16, Pooling::mean, {"i"}}},
      .dense_arch = {8, 16},
      .over_arch = {8},
      .table_optimizer = {.kind = kind},
      .dense_optimizer = {.kind = kind}};
}

void train_some_steps(CallBench& bench, SparseNN& model) {
  std::mt19937_64 random{seed()};
  for (int i = 0; i < 3; ++i) {
    HostExamples drawn{.dense_features = 3};
    drawn.sparse = draw_bags(random, {"u", "i"}, {400, 60}, 20, 4, false);
    drawn.labels.assign(20, 1.0F);
    drawn.dense.assign(60, 0.5F);
    const InputTensors input = bench.memory.upload(drawn);
    train_plainly(model, bench.main, input, features_of(input));
  }
  static_cast<void>(model.loss());
}

}  // namespace

TEST_CASE("what trains on one GPU makes no context on another, and never calls cudaSetDevice") {
  setenv("MILLRACE_CUBLAS", "", 1);
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam}) {
    std::optional<CallBench> bench{std::in_place};
    {
      SparseNN model{bench->context, small_model(kind)};
      train_some_steps(*bench, model);
    }
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
    SparseNN model{bench.context, small_model(OptimizerKind::sgd)};
    train_some_steps(bench, model);
  }
  for (const char* const function : {"cublasCreate", "cublasSgemm", "cublasDestroy"}) {
    CHECK_FALSE(fake::calls(function).empty());
    for (const fake::Call& call : fake::calls(function)) {
      INFO(function);
      CHECK(call.value == 1);
    }
  }
}

TEST_CASE("a stream that has a dead one's handle gets a handle of cuBLAS of its own") {
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
