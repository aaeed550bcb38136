#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "millrace/pipeline/data/epoch_source.hpp"

namespace millrace {

/** @brief Examples in pageable host memory, with at most one id for each sparse feature. */
struct ExampleTable {
  InputSchema schema;             ///< has no weighted features
  std::vector<float> dense;       ///< [examples x schema.dense]
  std::vector<std::int64_t> ids;  ///< [examples x schema.sparse]; -1: no id
  std::vector<float> labels;      ///< [examples]

  [[nodiscard]] std::size_t size() const noexcept { return labels.size(); }
};

/** @brief How a TableSource forms batches. */
struct TableSettings {
  std::size_t batch_size = 256;
  bool drop_last = false;                ///< skip the last batch of an epoch if it is short
  std::optional<std::uint64_t> shuffle;  ///< seed; each epoch then has its own order
};

/** @brief Batches from an ExampleTable. `seek` is cheap; a shuffle is computed once per epoch. */
class TableSource final : public EpochSource {
 public:
  /** @throws std::invalid_argument for a batch size of 0, or columns of different lengths */
  TableSource(std::shared_ptr<const ExampleTable> examples, const TableSettings& settings,
              const PinnedStaging& staging);
  ~TableSource() override;

  [[nodiscard]] const InputSchema& schema() const override;
  [[nodiscard]] BatchPosition position() const override;

 private:
  [[nodiscard]] std::optional<ModelInput> do_next() override;
  void do_seek(BatchPosition position) override;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
