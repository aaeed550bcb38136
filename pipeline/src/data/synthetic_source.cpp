// Compiled without contraction of a * b + c: see CMakeLists.txt.
#include "millrace/pipeline/data/synthetic_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "data/random.hpp"
#include "data/zipf.hpp"

namespace millrace {
namespace {

// Each quantity is drawn from its own branch, so it does not depend on the number of draws for
// others.
enum Branch : std::uint64_t {
  kBatchBranch,
  kDenseBranch,
  kLabelBranch,
  kLengthBranch,
  kIdBranch,
  kWeightBranch
};

constexpr double kMostPooling = 1 << 24;

void check(const SyntheticFeature& given) {
  const auto refuse = [&](std::string_view what, double value) {
    throw std::invalid_argument{
        fmt::format("feature '{}': {} cannot be {}", given.feature.name, what, value)};
  };
  if (!(given.pooling >= 0 && given.pooling <= kMostPooling)) refuse("pooling", given.pooling);
  if (!(given.pooling_deviation >= 0 && given.pooling_deviation <= kMostPooling)) {
    refuse("the deviation of the pooling", given.pooling_deviation);
  }
}

InputSchema schema_of(const SyntheticSettings& settings) {
  InputSchema schema{.value_type = settings.value_type, .length_type = settings.length_type};
  for (std::size_t i = 0; i < settings.dense_features; ++i) {
    schema.dense.push_back(fmt::format("dense_{}", i));
  }
  for (const SyntheticFeature& feature : settings.sparse) schema.sparse.push_back(feature.feature);
  for (const SyntheticFeature& feature : settings.weighted) {
    schema.weighted.push_back(feature.feature);
  }
  schema.check();
  return schema;
}

/** The features of one of the two tensors: without weights, or with weights. */
class Group {
 public:
  Group(const std::vector<SyntheticFeature>& features, bool weighted, const InputSchema& schema)
      : features_(features),
        weighted_(weighted),
        value_type_(schema.value_type),
        length_type_(schema.length_type),
        keys_(keys_of(weighted ? schema.weighted : schema.sparse)) {
    for (const SyntheticFeature& feature : features) {
      check(feature);
      ids_.emplace_back(feature.feature.rows, feature.skew);
    }
  }

  /** Draws the lengths, feature by feature. */
  JaggedLayout draw_lengths(const Draws& batch, std::size_t batch_size, double factor) {
    JaggedLayout layout{.keys = keys_,
                        .batch_size = batch_size,
                        .weighted = weighted_,
                        .value_type = value_type_,
                        .length_type = length_type_};
    lengths_.clear();
    for (std::size_t key = 0; key < features_.size(); ++key) {
      Draws draws = batch.branch(kLengthBranch).branch(key);
      std::size_t count = 0;
      for (std::size_t example = 0; example < batch_size; ++example) {
        lengths_.push_back(draw_length(features_[key], factor, draws));
        count += lengths_.back();
      }
      layout.counts.push_back(count);
    }
    return layout;
  }

  void write(const Draws& batch, const KeyedJaggedTensor& to) const {
    if (length_type_ == IndexType::int32) {
      write_lengths<std::int32_t>(to);
    } else {
      write_lengths<std::int64_t>(to);
    }
    if (value_type_ == IndexType::int32) {
      write_ids<std::int32_t>(batch, to);
    } else {
      write_ids<std::int64_t>(batch, to);
    }
    Draws draws = batch.branch(kWeightBranch);
    for (float& weight : to.weights().as<float>()) {
      weight = 0.5F + static_cast<float>(draws.next() >> 40U) * 0x1p-24F;
    }
  }

  /** Adds a number from -128 to 127 for each id to the score of its example. */
  void score(const KeyedJaggedTensor& ids, std::span<std::int64_t> scores) const {
    if (value_type_ == IndexType::int32) {
      add_scores<std::int32_t>(ids, scores);
    } else {
      add_scores<std::int64_t>(ids, scores);
    }
  }

 private:
  static std::uint32_t draw_length(const SyntheticFeature& feature, double factor, Draws& draws) {
    double length = feature.pooling * factor;
    if (feature.pooling_deviation > 0) length += feature.pooling_deviation * draws.normal();
    const double rounded = std::floor(length + 0.5);
    return std::max(feature.fewest, static_cast<std::uint32_t>(std::max(rounded, 0.0)));
  }

  template <typename Index>
  void write_lengths(const KeyedJaggedTensor& to) const {
    if (to.empty()) return;
    const auto lengths = to.lengths().as<Index>();
    const auto offsets = to.offsets().as<Index>();
    offsets[0] = 0;
    for (std::size_t bag = 0; bag < lengths.size(); ++bag) {
      lengths[bag] = static_cast<Index>(lengths_[bag]);
      offsets[bag + 1] = offsets[bag] + lengths[bag];
    }
  }

  template <typename Index>
  void write_ids(const Draws& batch, const KeyedJaggedTensor& to) const {
    const auto values = to.values().as<Index>();
    for (std::size_t key = 0; key < features_.size(); ++key) {
      Draws draws = batch.branch(kIdBranch).branch(key);
      for (Index& id : values.subspan(to.value_start(key), to.value_count(key))) {
        id = static_cast<Index>(ids_[key](draws));
      }
    }
  }

  template <typename Index>
  void add_scores(const KeyedJaggedTensor& ids, std::span<std::int64_t> scores) const {
    auto id = ids.values().as<const Index>().begin();
    for (std::size_t bag = 0; bag < lengths_.size(); ++bag) {
      const std::size_t key = bag / scores.size();
      for (std::uint32_t i = 0; i < lengths_[bag]; ++i) {
        const std::uint64_t bits = Draws::mixed(static_cast<std::uint64_t>(*id++) * 4096 + key + 1);
        scores[bag % scores.size()] += static_cast<std::int8_t>(bits >> 56U);
      }
    }
  }

  const std::vector<SyntheticFeature>& features_;
  bool weighted_;
  IndexType value_type_, length_type_;
  Keys keys_;
  std::vector<Zipf> ids_;
  std::vector<std::uint32_t> lengths_;  ///< of the batch that is being drawn
};

SyntheticSettings checked(SyntheticSettings settings) {
  if (settings.batch_size == 0) throw std::invalid_argument{"a batch has at least one example"};
  if (!(settings.pooling_variation >= 0 && settings.pooling_variation <= 16)) {
    throw std::invalid_argument{
        fmt::format("the pooling cannot vary by {}", settings.pooling_variation)};
  }
  return settings;
}

}  // namespace

class SyntheticSource::Drawer {
 public:
  Drawer(SyntheticSettings settings, const PinnedStaging& staging)
      : settings_(checked(std::move(settings))),
        staging_(staging),
        schema_(schema_of(settings_)),
        sparse_(settings_.sparse, false, schema_),
        weighted_(settings_.weighted, true, schema_) {}

  [[nodiscard]] const InputSchema& schema() const noexcept { return schema_; }

  std::optional<ModelInput> draw(std::uint64_t number) {
    const std::uint64_t batches = settings_.examples / settings_.batch_size +
                                  (settings_.examples % settings_.batch_size != 0);
    if (number >= batches) return std::nullopt;
    const std::uint64_t left = settings_.examples - number * settings_.batch_size;
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left, settings_.batch_size));

    const Draws of_batch = Draws{settings_.seed}.branch(number);
    const Draws of_sparse = of_batch.branch(0), of_weighted = of_batch.branch(1);
    Draws shift = of_batch.branch(2).branch(kBatchBranch);
    const double factor = std::max(0.0, 1 + settings_.pooling_variation * shift.normal());

    InputShape shape{.batch_size = size, .dense_features = settings_.dense_features};
    shape.sparse = sparse_.draw_lengths(of_sparse, size, factor);
    shape.weighted = weighted_.draw_lengths(of_weighted, size, factor);
    ModelInput batch{staging_.pinned, staging_.copy, shape};
    // Experiments without computation need only the sizes.
    if (!settings_.contents) return batch;

    sparse_.write(of_sparse, batch.contents().sparse);
    weighted_.write(of_weighted, batch.contents().weighted);
    write_dense(of_batch, batch.contents());
    write_labels(of_batch, batch.contents());
    return batch;
  }

 private:
  static void write_dense(const Draws& of_batch, const InputTensors& batch) {
    Draws draws = of_batch.branch(2).branch(kDenseBranch);
    for (float& value : batch.dense.as<float>()) value = static_cast<float>(draws.normal());
  }

  void write_labels(const Draws& of_batch, const InputTensors& batch) {
    scores_.assign(batch.batch_size, 0);
    sparse_.score(batch.sparse, scores_);
    weighted_.score(batch.weighted, scores_);
    Draws draws = of_batch.branch(2).branch(kLabelBranch);
    const auto labels = batch.labels.as<float>();
    for (std::size_t example = 0; example < labels.size(); ++example) {
      const auto noise = static_cast<std::int64_t>(draws.below(129)) - 64;
      labels[example] = scores_[example] + noise > 0 ? 1.0F : 0.0F;
    }
  }

  const SyntheticSettings settings_;
  PinnedStaging staging_;
  InputSchema schema_;
  Group sparse_, weighted_;
  std::vector<std::int64_t> scores_;
};

SyntheticSource::SyntheticSource(SyntheticSettings settings, const PinnedStaging& staging)
    : drawer_(std::make_unique<Drawer>(std::move(settings), staging)) {}

SyntheticSource::~SyntheticSource() = default;

const InputSchema& SyntheticSource::schema() const { return drawer_->schema(); }

std::optional<ModelInput> SyntheticSource::do_next() {
  std::optional<ModelInput> batch = drawer_->draw(position_.batch);
  if (batch) ++position_.batch;
  return batch;
}

}  // namespace millrace
