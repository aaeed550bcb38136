#include "millrace/pipeline/data/share_source.hpp"

#include "millrace/memory/forwarding_allocator.hpp"
#include "millrace/pipeline/data/synthetic_source.hpp"
#include "test/pipeline/data/source_support.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr std::size_t kExamples = 30, kBatch = 8;  // the last batch has 6

SyntheticSettings settings(IndexType lengths) {
  SyntheticSettings settings{.batch_size = kBatch, .examples = kExamples, .dense_features = 2};
  settings.sparse = {{{"a", "a", 1000}, 3, 1, 0, 1.1}, {{"b", "b", 1000}, 0.5, 0, 0, 0}};
  settings.weighted = {{{"w", "w", 50}, 2, 2, 0, 1}};
  settings.seed = seed();
  settings.length_type = lengths;
  return settings;
}

/// An example as numbers: dense features, label, and the ids and weights of each feature.
using Example = std::vector<double>;

template <typename Offset>
void add_features(std::vector<Example>& examples, const KeyedJaggedTensor& features) {
  const auto offsets = list<Offset>(features.offsets());
  const auto lengths = list<Offset>(features.lengths());
  const auto ids = list<std::int64_t>(features.values());
  const auto weights = list<float>(features.weights());
  REQUIRE((offsets.front() == 0 && offsets.back() == static_cast<Offset>(ids.size())));
  for (std::size_t key = 0; key < features.key_count(); ++key) {
    for (std::size_t e = 0; e < examples.size(); ++e) {
      const std::size_t bag = key * examples.size() + e;
      CHECK(offsets[bag + 1] - offsets[bag] == lengths[bag]);
      examples[e].push_back(static_cast<double>(lengths[bag]));
      for (auto i = static_cast<std::size_t>(offsets[bag]);
           i < static_cast<std::size_t>(offsets[bag + 1]); ++i) {
        examples[e].push_back(static_cast<double>(ids[i]));
        if (features.weighted()) examples[e].push_back(weights[i]);
      }
    }
  }
}

void add_examples(std::vector<Example>& all, const ModelInput& batch) {
  const InputTensors& of = batch.contents();
  const auto dense = list<float>(of.dense), labels = list<float>(of.labels);
  std::vector<Example> examples;
  for (std::size_t e = 0; e < of.batch_size; ++e) {
    examples.push_back({dense[2 * e], dense[2 * e + 1], labels[e]});
  }
  for (const KeyedJaggedTensor* const features : {&of.sparse, &of.weighted}) {
    if (of.sparse.layout().length_type == IndexType::int32) {
      add_features<std::int32_t>(examples, *features);
    } else {
      add_features<std::int64_t>(examples, *features);
    }
  }
  all.insert(all.end(), examples.begin(), examples.end());
}

/// Serves a given number of allocations, then fails once.
class FailingAllocator final : public ForwardingAllocator {
 public:
  using ForwardingAllocator::ForwardingAllocator;

  void fail_after(std::size_t served) { left_ = served; }

  using ForwardingAllocator::allocate;
  void* allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag) override {
    if (bytes > 0 && left_ && (*left_)-- == 0) {
      left_.reset();
      throw out_of_memory{{.requested = bytes}};
    }
    return ForwardingAllocator::allocate(bytes, owner, first_user, tag);
  }

 private:
  std::optional<std::size_t> left_;
};

struct ShareBench : JaggedBench {
  [[nodiscard]] PinnedStaging staging() { return {host_memory, copy}; }
  [[nodiscard]] std::unique_ptr<EpochSource> whole(IndexType lengths = IndexType::int32) {
    return std::make_unique<SyntheticSource>(settings(lengths), staging());
  }
};

}  // namespace

TEST_CASE("the shares of all ranks together are the source's batches, in order") {
  ShareBench bench;
  const IndexType lengths = GENERATE(IndexType::int32, IndexType::int64);
  const unsigned ranks = GENERATE(1U, 2U, 3U, 4U, 7U, 9U);
  const auto whole = bench.whole(lengths);
  std::vector<std::unique_ptr<ShareSource>> shares;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    shares.push_back(std::make_unique<ShareSource>(bench.whole(lengths), BatchShare{rank, ranks},
                                                   bench.staging()));
  }
  while (const auto batch = whole->next()) {
    std::vector<Example> expected, found;
    add_examples(expected, *batch);
    for (const auto& share : shares) {
      const auto part = share->next();
      REQUIRE(part.has_value());
      CHECK(part->batch_size() <= (batch->batch_size() + ranks - 1) / ranks);
      add_examples(found, *part);
      CHECK(share->position() == whole->position());
    }
    CHECK(found == expected);
  }
  for (const auto& share : shares) CHECK(!share->next().has_value());
}

TEST_CASE("a share source resumes at any position and refuses a rank out of range") {
  ShareBench bench;
  ShareSource share{bench.whole(), {1, 2}, bench.staging()};
  const auto all = rest_of(share);
  REQUIRE(all.size() == 4);
  share.seek({1, 2});
  CHECK(rest_of(share) == std::vector<BatchBytes>{all[2], all[3]});
  CHECK_THROWS_AS((ShareSource{bench.whole(), {2, 2}, bench.staging()}), std::invalid_argument);
}

TEST_CASE("a share that ran out of memory is the same when it is read again") {
  ShareBench bench;
  FailingAllocator failing{bench.host_memory};
  ShareSource share{bench.whole(), {1, 2}, {failing, bench.copy}};
  const auto expected = rest_of(share);
  std::size_t failures = 0, before = 0;
  const auto next = [&] {
    try {
      return share.next();
    } catch (const out_of_memory&) {
      ++failures;
      return share.next();
    }
  };
  std::size_t served = 0;
  do {  // until a batch needs no more than `served` allocations
    before = failures;
    share.seek({0, 0});
    std::vector<BatchBytes> found;
    failing.fail_after(served);
    while (const auto batch = next()) {
      found.push_back(bytes_of(*batch));
      failing.fail_after(served);
    }
    CHECK(found == expected);
    ++served;
  } while (failures != before);
  CHECK(failures >= expected.size());
}
