#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "millrace/pipeline/data/byte_stream.hpp"
#include "millrace/pipeline/data/epoch_source.hpp"
#include "millrace/pipeline/data/malformed_lines.hpp"

namespace millrace {

/** @brief How a CriteoSource reads its file. */
struct CriteoSettings {
  std::size_t batch_size = 2048;
  std::vector<std::size_t> rows{100'000};  ///< rows per table: one number for all, or 26
  bool drop_last = false;                  ///< skip the last batch of an epoch if it is short
  std::optional<std::uint64_t> shuffle;    ///< seed; each epoch then has its own order
  std::size_t shuffle_window = 1U << 16U;  ///< examples are shuffled within blocks of this size
  IndexType value_type = IndexType::int64;
  MalformedLimit malformed;  ///< per epoch
};

/**
 * @brief The Criteo click logs: lines of 40 columns separated by tabs, plain or gzip.
 *
 * The columns are a label (0 or 1), 13 integers and 26 categories. Dense features I1 .. I13 are
 * log(1 + max(x, 0)), or 0 if the column is empty. Each of the sparse features C1 .. C26 has one
 * id, a hash of the category that is less than the table's number of rows, or no id if the column
 * is empty. Other lines are malformed: they are counted and skipped. `next` throws DataError when
 * their number exceeds the limit.
 *
 * The file is read on demand, once per epoch. `seek` reads everything before the new position.
 */
class CriteoSource final : public EpochSource {
 public:
  /**
   * @param file     the click log; opened at the first `next` and again for each epoch
   * @param staging  memory for the batches; outlives the source and its batches
   * @throws std::invalid_argument for settings that make no sense
   */
  CriteoSource(ByteSource file, const CriteoSettings& settings, const PinnedStaging& staging);
  ~CriteoSource() override;

  [[nodiscard]] const InputSchema& schema() const override;
  [[nodiscard]] BatchPosition position() const override;

  /** @brief Malformed lines in this epoch so far. Thread-safe. */
  [[nodiscard]] MalformedLines malformed() const;
  /**
   * @brief Estimated number of examples in an epoch. Thread-safe.
   *
   * Estimated from the fraction of the file that was read; exact once the file was read to its end.
   * @return std::nullopt before the first batch, or if that fraction is unknown
   */
  [[nodiscard]] std::optional<std::uint64_t> examples_expected() const;

 private:
  [[nodiscard]] std::optional<ModelInput> do_next() override;
  void do_seek(BatchPosition position) override;

  class Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace millrace
