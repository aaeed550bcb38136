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
  std::size_t size = 0;  ///< of all ranks
  std::uint64_t seed = 0;
  BatchShare share;  ///< of every batch, what this rank reads
};

/** @brief What is trained on, and what the model is tested on. */
struct TrainData {
  std::unique_ptr<EpochSource> train, test;
  BatchPosition test_begin;
  std::string tested_on;                  ///< "test set", "training data"
  std::optional<std::uint64_t> examples;  ///< of an epoch, where that is known before
  std::optional<std::uint64_t> test_examples;
  MalformedLines malformed;              ///< found before training
  const CriteoSource* criteo = nullptr;  ///< finds them while it reads

  [[nodiscard]] MalformedLines malformed_so_far() const;
  /** @brief Examples of an epoch; an estimate until a new file was read once. From any thread. */
  [[nodiscard]] std::optional<std::uint64_t> examples_expected() const;
};

[[nodiscard]] std::size_t usual_batch_size(DataKind kind);

/** @param model  Criteo's categories are hashed to the numbers of rows of its tables
 *  @throws DataError, RetriableError, UsageError */
[[nodiscard]] TrainData open_data(const DataOptions& options, const BatchOptions& batches,
                                  const ModelDescription& model, const PinnedStaging& staging);

/** @brief Names and sizes of features and tables, for a checkpoint to compare. */
[[nodiscard]] std::string describe(const InputSchema& schema);

}  // namespace millrace::cli
