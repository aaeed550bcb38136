// Host versions of the kernels of test/support/cuda/content_kernels.cu. Those kernels read the
// GPU's clock, so their own code cannot run here.

#include <cstdint>

#include "test/support/cuda/content_kernels.hpp"
#include "test/virtual_kernels/rows.hpp"

namespace millrace::test::virtual_kernels {
namespace {

template <typename Visit>
void each_word(const SampledWords& of, const Visit& visit) {
  auto* const data = reinterpret_cast<std::uint64_t*>(of.data);
  for (std::size_t at = 0; at < of.words; at += of.stride) visit(data[at]);
  if (of.last) visit(data[of.words - 1]);
}

void fill_words(const MillraceLaunch* launch) {
  const auto value = argument<std::uint64_t>(*launch, 1);
  each_word(argument<SampledWords>(*launch, 0), [&](std::uint64_t& word) { word = value; });
}

void check_words(const MillraceLaunch* launch) {
  const auto value = argument<std::uint64_t>(*launch, 1);
  bool differs = false;
  each_word(argument<SampledWords>(*launch, 0),
            [&](const std::uint64_t& word) { differs = differs || word != value; });
  auto* const findings = argument<unsigned long long*>(*launch, 3);
  ++findings[0];
  if (differs) ++findings[1];
}

// The kernels wait this long before they touch a word.
void waits(const MillraceLaunch* launch, MillraceCost* cost) {
  cost->nanoseconds = static_cast<long long>(*static_cast<std::uint64_t*>(launch->arguments[2]));
}

}  // namespace

void add_rows_of_tests(std::vector<Row>& rows) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  rows.push_back({.pattern = "millrace::test::(anonymous namespace)::fill_words(*",
                  .argument_bytes = {sizeof(SampledWords), kWord, kWord},
                  .run = fill_words,
                  .cost = waits});
  rows.push_back({.pattern = "millrace::test::(anonymous namespace)::check_words(*",
                  .argument_bytes = {sizeof(SampledWords), kWord, kWord, sizeof(void*)},
                  .run = check_words,
                  .cost = waits});
}

}  // namespace millrace::test::virtual_kernels
