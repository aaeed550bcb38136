#include <cmath>
#include <set>

#include "millrace/pipeline/schedule/workload.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;

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

TEST_CASE("the same seed draws the same batches, another seed others") {
  const auto sizes = [](std::uint64_t seed) {
    return draw_batches(workload(3, 0.1), 1, seed).front().total();
  };
  const std::uint64_t seed = test::seed();
  CHECK(sizes(seed) == sizes(seed));
  CHECK(sizes(seed) != sizes(seed + 1));
}

TEST_CASE("lengths without deviation are the average") {
  const BatchSizes batch = draw_batches(workload(0, 0), 1, test::seed()).front();
  CHECK(batch.unweighted_values == 2001 * 5 * 30 * 8);
  CHECK(batch.weighted_values == 2001 * 3 * 30 * 8);
  CHECK(batch.weights == 2001 * 3 * 30 * 4);
  CHECK(batch.unweighted_lengths == 2001 * 5 * 8);
  CHECK(batch.weighted_lengths == 2001 * 3 * 8);
  CHECK(batch.float_features == 2001 * 7 * 4);
  CHECK(batch.labels == 2001 * 4);
}

TEST_CASE("drawn lengths have the average that was asked for") {
  const BatchSizes batch = draw_batches(workload(3, 0), 1, test::seed()).front();
  const double mean = static_cast<double>(batch.unweighted_values) / 8 / (2001 * 5);
  CHECK(std::abs(mean - 30) < 5 * 3 / std::sqrt(2001 * 5.0));
}

TEST_CASE("no length is below one") {
  Workload sparse = workload(3, 0);
  sparse.feature_pooling_avg = 1;
  const BatchSizes batch = draw_batches(sparse, 1, test::seed()).front();
  CHECK(batch.unweighted_values >= 2001 * 5 * 8);
}

TEST_CASE("variation between batches gives each its own sizes") {
  std::set<std::size_t> totals;
  for (const BatchSizes& batch : draw_batches(workload(3, 0.1), 20, test::seed())) {
    totals.insert(batch.total());
  }
  CHECK(totals.size() == 20);
  CHECK(static_cast<double>(*totals.rbegin()) > 1.1 * static_cast<double>(*totals.begin()));
}

TEST_CASE("the tensors of a batch add up to its bytes") {
  const BatchSizes batch = draw_batches(workload(3, 0.1), 1, test::seed()).front();
  std::size_t sum = 0;
  for (const std::size_t bytes : batch.tensors()) sum += bytes;
  CHECK(sum == batch.total());
}
