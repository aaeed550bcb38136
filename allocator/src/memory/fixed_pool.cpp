#include "millrace/memory/fixed_pool.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

#include "millrace/round_up.hpp"

namespace millrace {
namespace {

// Returns the size of a segment, which has at most `blocks_at_once` blocks. With `most_bytes`,
// segments of this size fill that maximum. If the last one did not fit below it, the pool would
// acquire a segment for each remaining block.
std::size_t segment_for(std::size_t block, const FixedPoolOptions& options,
                        std::size_t granularity) {
  const std::size_t liked = round_up(block * options.blocks_at_once, granularity);
  if (options.most_bytes == 0) return liked;
  const std::size_t count = (options.most_bytes - 1) / liked + 1;
  const std::size_t share = options.most_bytes / count / granularity * granularity;
  return std::max(share, round_up(block, granularity));
}

Policy policy_for(const FixedPoolOptions& options, std::size_t granularity) {
  constexpr std::size_t kMost = std::numeric_limits<std::ptrdiff_t>::max();
  if (options.block_bytes == 0 || options.blocks_at_once == 0 ||
      options.block_bytes > kMost / options.blocks_at_once / 2) {
    throw std::invalid_argument{
        "FixedPool: block_bytes and blocks_at_once have to be at least 1, and their product a "
        "number of bytes that a device can have"};
  }
  Policy policy = Policy::millrace();
  policy.name = "fixed";
  policy.granule = round_up(options.block_bytes, 512);
  policy.small_limit = 0;  // all requests use the large pool
  policy.growable_ranges = false;
  policy.large_segment_least = policy.large_segment_most = 0;
  policy.medium_limit = kMost;
  policy.medium_segment = segment_for(policy.granule, options, granularity);
  policy.large_remainder = policy.granule;
  policy.slack = 0;
  return policy;
}

}  // namespace

FixedPool::FixedPool(OrderedDevice& device, SegmentSource& source, FixedPoolOptions options)
    : memory_(device, source, policy_for(options, source.granularity()),
              {.limit = options.most_bytes}) {}

void* FixedPool::allocate(StreamRef stream, Tag tag) {
  return memory_.allocate(block_bytes(), stream, tag);
}

void FixedPool::allocate(std::span<void*> addresses, StreamRef stream, Tag tag) {
  const std::vector<std::size_t> sizes(addresses.size(), block_bytes());
  memory_.allocate(sizes, addresses, stream, tag);
}

}  // namespace millrace
