#include "test/stress/soak.hpp"

#include "millrace/memory/forwarding_allocator.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

Policy small(Policy policy) {
  if (policy.large_segment_most != 0) {
    policy.large_segment_least = std::size_t{8} << 20;
    policy.large_segment_most = std::size_t{16} << 20;
  }
  return policy;
}

/// A policy that waits whenever it may.
Policy waiting() {
  Policy policy = small(Policy::millrace());
  policy.name = "waiting";
  policy.spare_bursts = -1e9;
  return policy;
}

/// Ignores recorded uses. Gives nothing back, so memory that is used too long may belong to another
/// block, but is still mapped.
class Forgetful final : public ForwardingAllocator {
 public:
  using ForwardingAllocator::ForwardingAllocator;
  void record_use(void*, StreamRef) override {}
  std::size_t trim(std::size_t) override { return 0; }
};

}  // namespace

TEST_CASE("threads that share streams, devices and blocks read what they wrote in each block") {
  Soak options;
  options.seed = seed();
  options.time = 700ms;
  options.policy = GENERATE(small(Policy::torch()), small(Policy::millrace()), waiting());
  const SoakResult result = soak(options);
  CAPTURE(options.policy.name, result.steps, result.out_of_memory, result.generations);
  CHECK(result.failure == "");
  CHECK(result.corrupted == 0);
  CHECK(result.left_bytes == 0);
  CHECK(result.checked > 0);
}

#ifndef __SANITIZE_THREAD__  // it would report the intended race
TEST_CASE("threads detect an allocator that forgets uses by what they read") {
  Soak options;
  options.seed = seed();
  options.time = 200ms;
  options.memory_bytes = std::size_t{1} << 30;
  options.policy = small(Policy::millrace());
  options.wrap = [](Allocator& inner) { return std::make_unique<Forgetful>(inner); };
  std::uint64_t corrupted = 0;
  for (int attempt = 0; attempt < 20 && corrupted == 0; ++attempt) {
    options.seed += 1000;
    corrupted = soak(options).corrupted;
  }
  CHECK(corrupted > 0);
}
#endif
