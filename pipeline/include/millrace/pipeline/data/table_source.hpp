#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "millrace/pipeline/data/epoch_source.hpp"

namespace millrace {

/** @brief Examples in ordinary memory, with at most one id of each sparse feature. */
struct ExampleTable {
  InputSchema schema;             ///< no weighted features
  std::vector<float> dense;       ///< [examples x schema.dense]
  std::vector<std::int64_t> ids;  ///< [examples x schema.sparse]; -1: none
  std::vector<float> labels;      ///< [examples]

  [[nodiscard]] std::size_t size() const noexcept { return labels.size(); }
};

struct TableSettings {
  std::size_t batch_size = 256;
  bool drop_last = false;                ///< leaves out the last batch of an epoch if it is short
  std::optional<std::uint64_t> shuffle;  ///< a seed: each epoch in an order of its own
};

/** @brief Batches of a table. Seeking costs no reading; an order is drawn once an epoch. */
class TableSource final : public EpochSource {
 public:
  /** @throws std::invalid_argument for a batch size of 0, or columns that disagree in length */
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
