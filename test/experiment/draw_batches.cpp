#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "millrace/experiment/workload.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::experiment;

namespace {

Workload workload(double std, double variation) {
  Workload workload;
  workload.batch_size = 2001;  // not a multiple of four
  workload.num_float_features = 7;
  workload.num_unweighted_features = 5;
  workload.num_weighted_features = 3;
  workload.feature_pooling_avg = 30;
  workload.feature_pooling_std = std;
  workload.feature_pooling_variation = variation;
  return workload;
}

}  // namespace

TEST_CASE("the same seed draws the same batches, another seed other batches") {
  const auto values = [](std::uint64_t seed) {
    return draw_batches(workload(3, 0.1), 1, seed).front().sparse.counts;
  };
  const std::uint64_t seed = test::seed();
  CHECK(values(seed) == values(seed));
  CHECK(values(seed) != values(seed + 1));
}

TEST_CASE("lengths without deviation equal the average") {
  const InputShape batch = draw_batches(workload(0, 0), 1, test::seed()).front();
  CHECK(batch.batch_size == 2001);
  CHECK(batch.dense_features == 7);
  CHECK(batch.labeled);
  CHECK(batch.sparse.counts == std::vector<std::size_t>(5, 2001 * 30));
  CHECK(batch.weighted.counts == std::vector<std::size_t>(3, 2001 * 30));
  CHECK_FALSE(batch.sparse.weighted);
  CHECK(batch.weighted.weighted);
}

TEST_CASE("drawn lengths have the requested average") {
  const InputShape batch = draw_batches(workload(3, 0), 1, test::seed()).front();
  const double mean = static_cast<double>(batch.sparse.value_count()) / (2001 * 5);
  CHECK(std::abs(mean - 30) < 5 * 3 / std::sqrt(2001 * 5.0));
}

TEST_CASE("no drawn length is below 1") {
  Workload sparse = workload(3, 0);
  sparse.feature_pooling_avg = 1;
  const InputShape batch = draw_batches(sparse, 1, test::seed()).front();
  for (const std::size_t count : batch.sparse.counts) CHECK(count >= 2001);
}

TEST_CASE("variation between batches gives each batch a different size") {
  std::set<std::size_t> totals;
  for (const InputShape& batch : draw_batches(workload(3, 0.1), 20, test::seed())) {
    totals.insert(batch.sparse.value_count());
  }
  CHECK(totals.size() == 20);
  CHECK(static_cast<double>(*totals.rbegin()) > 1.1 * static_cast<double>(*totals.begin()));
}

TEST_CASE("every feature of a workload is a key, the features of extra tables last") {
  Workload extra = workload(3, 0);
  extra.additional_tables = {{.num_embeddings = 10, .embedding_dim = 4}};
  const InputShape batch = draw_batches(extra, 1, test::seed()).front();
  CHECK(*batch.sparse.keys == std::vector<std::string>{"u0", "u1", "u2", "u3", "u4", "t0"});
  CHECK(*batch.weighted.keys == std::vector<std::string>{"w0", "w1", "w2"});
}

TEST_CASE("only keys that affect the drawing change the batches of a workload") {
  const Workload one = workload(3, 0.1);
  Workload other = one;
  other.shape = PipelineKind::base;
  other.activations = 2 * one.activations + 1;
  other.compute_to_copy = 7;
  CHECK(same_batches(one, other));
  CHECK(draw_batches(one, 3, 1).back().tensor_bytes() ==
        draw_batches(other, 3, 1).back().tensor_bytes());
  other.feature_pooling_std = 4;
  CHECK_FALSE(same_batches(one, other));
  CHECK(draw_batches(one, 3, 1).back().tensor_bytes() !=
        draw_batches(other, 3, 1).back().tensor_bytes());
}
