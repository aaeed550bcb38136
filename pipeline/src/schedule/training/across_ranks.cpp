#include "schedule/training/across_ranks.hpp"

#include <bit>
#include <cstring>
#include <initializer_list>
#include <span>

#include "millrace/pipeline/collective/gather.hpp"

namespace millrace {
namespace {

/** Sends the same numbers to each rank. @return [ranks x numbers] */
std::vector<std::int64_t> shared(ProcessGroup& group, std::initializer_list<std::int64_t> numbers) {
  std::vector<std::int64_t> to_all;
  for (unsigned rank = 0; rank < group.size(); ++rank) {
    to_all.insert(to_all.end(), numbers.begin(), numbers.end());
  }
  return group.exchange_sizes(RankState::ok, to_all).values;
}

}  // namespace

std::vector<float> gathered(ProcessGroup& group, const std::vector<float>& numbers,
                            Allocator& memory, Stream& stream) {
  std::vector<float> all;
  for (const auto& bytes : gather(group, std::as_bytes(std::span{numbers}), memory, stream)) {
    const std::size_t before = all.size();
    all.resize(before + bytes.size() / sizeof(float));
    if (!bytes.empty()) std::memcpy(all.data() + before, bytes.data(), bytes.size());
  }
  return all;
}

Evaluation received_from_first(ProcessGroup& group, const Evaluation& known) {
  const auto received = shared(
      group, {static_cast<std::int64_t>(known.examples), std::bit_cast<std::int64_t>(known.loss),
              std::bit_cast<std::int64_t>(known.auc)});
  return {.examples = static_cast<std::uint64_t>(received[0]),
          .loss = std::bit_cast<double>(received[1]),
          .auc = std::bit_cast<double>(received[2])};
}

void add_up(ProcessGroup& group, double& sum, std::uint64_t& examples) {
  const auto received =
      shared(group, {std::bit_cast<std::int64_t>(sum), static_cast<std::int64_t>(examples)});
  sum = 0;
  examples = 0;
  for (std::size_t rank = 0; rank < group.size(); ++rank) {
    sum += std::bit_cast<double>(received[2 * rank]);
    examples += static_cast<std::uint64_t>(received[2 * rank + 1]);
  }
}

}  // namespace millrace
