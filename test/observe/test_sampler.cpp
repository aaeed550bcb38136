#include "millrace/observe/sampler.hpp"
#include "millrace/observe/scope.hpp"
#include "test/observe/scripted_allocator.hpp"
#include "test/support/catch.hpp"

namespace millrace {
namespace {

using std::chrono::microseconds;

TEST_CASE("a sampled value holds until the next sample") {
  SampledSeries series;
  series.add(10, microseconds{100});
  series.add(40, microseconds{130});
  series.add(20, microseconds{140});
  CHECK(series.count() == 3);
  CHECK(series.last() == 20);
  CHECK(series.peak() == 40);
  CHECK(series.mean() == 17.5);
}

TEST_CASE("the mean over no time is the last value") {
  SampledSeries series;
  CHECK(series.mean() == 0);
  series.add(10, microseconds{100});
  series.add(30, microseconds{100});
  CHECK(series.mean() == 30);
}

TEST_CASE("a sample with an earlier time is refused") {
  SampledSeries series;
  series.add(10, microseconds{100});
  CHECK_THROWS_AS(series.add(10, microseconds{99}), std::invalid_argument);
  CHECK(series.count() == 1);
}

TEST_CASE("a sampler follows an allocator and the bytes usable by one stream") {
  test::ScriptedAllocator allocator;
  FootprintSampler sampler{allocator, StreamHandle{}};
  allocator.scripted.bytes.reserved.current = 1000;
  allocator.scripted.bytes.allocated.current = 400;
  allocator.scripted_usable = {.total = 300, .largest = 75, .stranded = 300};
  sampler.sample(microseconds{0});
  allocator.scripted.bytes.allocated.current = 800;
  allocator.scripted_usable = {.total = 200, .largest = 200, .stranded = 0};
  sampler.sample(microseconds{10});

  CHECK(sampler.reserved().mean() == 1000);
  CHECK(sampler.allocated().peak() == 800);
  CHECK(sampler.allocated().mean() == 400);
  CHECK(sampler.stranded().peak() == 300);
  CHECK(sampler.stranded().last() == 0);
  CHECK(sampler.fragmentation().mean() == 0.75);
}

TEST_CASE("a scope of peaks is open while its object lives") {
  test::ScriptedAllocator allocator;
  allocator.scripted.bytes.reserved.peak = 77;
  {
    const PeakScope scope{allocator};
    CHECK(scope.peaks().reserved.peak == 77);
    CHECK(allocator.open_scopes.size() == 1);
  }
  CHECK(allocator.open_scopes.empty());
}

}  // namespace
}  // namespace millrace
