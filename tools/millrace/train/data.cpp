#include "train/data.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/pipeline/data/adult.hpp"
#include "millrace/pipeline/data/synthetic_source.hpp"

namespace millrace::cli {
namespace {

constexpr std::size_t kCriteoCategories = 26;
constexpr std::size_t kCriteoRows = 100'000;

SyntheticSettings drawn(const DataOptions& options, const BatchOptions& batches) {
  SyntheticSettings settings;
  settings.batch_size = batches.size;
  settings.examples = options.examples;
  settings.dense_features = 4;
  settings.seed = batches.seed;
  for (int i = 0; i < 6; ++i) {
    settings.sparse.push_back({.feature = {fmt::format("s{}", i), fmt::format("s{}", i), 1000},
                               .pooling = 2,
                               .pooling_deviation = 1,
                               .fewest = 0,
                               .skew = 1.05});
  }
  settings.weighted.push_back({.feature = {"w0", "w0", 1000}, .pooling = 2, .skew = 1.05});
  return settings;
}

/** The test set has a quarter as many examples. It uses the batches that follow an epoch of
 * `settings`. */
TrainData draw(const DataOptions& options, const BatchOptions& batches,
               const PinnedStaging& staging) {
  SyntheticSettings settings = drawn(options, batches);
  TrainData data;
  data.examples = settings.examples;
  data.test_examples = std::max<std::uint64_t>(1, settings.examples / 4);
  data.tested_on = "test set";
  data.train = std::make_unique<SyntheticSource>(settings, staging);
  const std::uint64_t whole = (settings.examples + batches.size - 1) / batches.size;
  settings.examples = whole * batches.size + *data.test_examples;
  data.test = std::make_unique<SyntheticSource>(settings, staging);
  data.test_begin = {0, whole};
  return data;
}

TrainData read_adult(const DataOptions& options, const BatchOptions& batches,
                     const PinnedStaging& staging) {
  const bool folder = options.kind == DataKind::adult;
  const std::filesystem::path train = folder ? options.path / "adult.data" : options.path;
  const std::filesystem::path test =
      folder ? options.path / "adult.test" : options.test.value_or(options.path);
  const AdultSettings settings{.malformed = {.limit = options.malformed}};
  const AdultData adult = millrace::read_adult(file_source(train), file_source(test), settings);
  TrainData data;
  data.examples = adult.train->size();
  data.test_examples = adult.test->size();
  data.tested_on = train == test ? "training data" : "test set";
  data.malformed = adult.malformed_train;
  data.train = std::make_unique<TableSource>(
      adult.train, TableSettings{.batch_size = batches.size, .shuffle = batches.seed}, staging);
  data.test =
      std::make_unique<TableSource>(adult.test, TableSettings{.batch_size = batches.size}, staging);
  return data;
}

std::vector<std::size_t> criteo_rows(const ModelDescription& model) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 1; i <= kCriteoCategories; ++i) {
    const auto table = model.tables.find(fmt::format("C{}", i));
    rows.push_back(table == model.tables.end() ? kCriteoRows
                                               : table->second.rows.value_or(kCriteoRows));
  }
  return rows;
}

TrainData read_criteo(const DataOptions& options, const BatchOptions& batches,
                      const ModelDescription& model, const PinnedStaging& staging) {
  CriteoSettings settings{.batch_size = batches.size,
                          .rows = criteo_rows(model),
                          .shuffle = batches.seed,
                          .malformed = {.limit = options.malformed}};
  TrainData data;
  data.tested_on = options.test ? "test set" : "training data";
  auto train = std::make_unique<CriteoSource>(file_source(options.path), settings, staging);
  data.criteo = train.get();
  data.train = std::move(train);
  settings.shuffle.reset();
  data.test = std::make_unique<CriteoSource>(file_source(options.test.value_or(options.path)),
                                             settings, staging);
  return data;
}

std::string list_of(const std::vector<SparseFeature>& features) {
  std::string text;
  for (const SparseFeature& feature : features) {
    text += fmt::format(" {}:{}:{}", feature.name, feature.table, feature.rows);
  }
  return text;
}

}  // namespace

MalformedLines TrainData::malformed_so_far() const {
  return criteo != nullptr ? criteo->malformed() : malformed;
}

std::optional<std::uint64_t> TrainData::examples_expected() const {
  return criteo != nullptr ? criteo->examples_expected() : examples;
}

std::size_t usual_batch_size(DataKind kind) { return kind == DataKind::criteo ? 2048 : 256; }

namespace {

TrainData open_whole(const DataOptions& options, const BatchOptions& batches,
                     const ModelDescription& model, const PinnedStaging& staging) {
  switch (options.kind) {
    case DataKind::synthetic:
      return draw(options, batches, staging);
    case DataKind::criteo:
      return read_criteo(options, batches, model, staging);
    case DataKind::adult:
    case DataKind::adult_file:
      break;
  }
  return read_adult(options, batches, staging);
}

}  // namespace

TrainData open_data(const DataOptions& options, const BatchOptions& batches,
                    const ModelDescription& model, const PinnedStaging& staging) {
  TrainData data = open_whole(options, batches, model, staging);
  if (batches.share.ranks == 1) return data;
  for (auto* const source : {&data.train, &data.test}) {
    *source = std::make_unique<ShareSource>(std::move(*source), batches.share, staging);
  }
  return data;
}

std::string describe(const InputSchema& schema) {
  std::string text = "dense";
  for (const std::string& name : schema.dense) text += fmt::format(" {}", name);
  return fmt::format("{}; sparse{}; weighted{}", text, list_of(schema.sparse),
                     list_of(schema.weighted));
}

}  // namespace millrace::cli
