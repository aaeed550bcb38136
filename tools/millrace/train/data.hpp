#pragma once

#include <memory>
#include <optional>
#include <string>

#include "millrace/pipeline/data/criteo_source.hpp"
#include "millrace/pipeline/data/epoch_source.hpp"
#include "millrace/pipeline/data/malformed_lines.hpp"
#include "millrace/pipeline/data/share_source.hpp"
#include "millrace/pipeline/model/model_description.hpp"
#include "train/options.hpp"

namespace millrace::cli {

struct BatchOptions {
  std::size_t size = 0;  ///< examples of all ranks
  std::uint64_t seed = 0;
  BatchShare share;  ///< the part of each batch that this rank reads
};

/** @brief The data for training and for tests. */
struct TrainData {
  std::unique_ptr<EpochSource> train, test;
  BatchPosition test_begin;
  std::string tested_on;                  ///< "test set", "training data"
  std::optional<std::uint64_t> examples;  ///< in an epoch, if known before training
  std::optional<std::uint64_t> test_examples;
  MalformedLines malformed;              ///< found before training
  const CriteoSource* criteo = nullptr;  ///< finds malformed lines while it reads

  [[nodiscard]] MalformedLines malformed_so_far() const;
  /** @brief Examples in an epoch; an estimate until a new file was read to its end. Thread-safe. */
  [[nodiscard]] std::optional<std::uint64_t> examples_expected() const;
};

[[nodiscard]] std::size_t usual_batch_size(DataKind kind);

/**
 * @param model  its tables' numbers of rows are needed to hash the categories of Criteo
 * @throws DataError, RetriableError, UsageError
 */
[[nodiscard]] TrainData open_data(const DataOptions& options, const BatchOptions& batches,
                                  const ModelDescription& model, const PinnedStaging& staging);

/** @brief Names and sizes of features and tables. A checkpoint stores this text for comparison. */
[[nodiscard]] std::string describe(const InputSchema& schema);

}  // namespace millrace::cli
