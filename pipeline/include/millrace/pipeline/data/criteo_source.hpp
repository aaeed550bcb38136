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

struct CriteoSettings {
  std::size_t batch_size = 2048;
  std::vector<std::size_t> rows{100'000};  ///< of the tables: one number for all, or 26
  bool drop_last = false;                  ///< leaves out the last batch of an epoch if it is short
  std::optional<std::uint64_t> shuffle;    ///< a seed: each epoch in an order of its own,
  std::size_t shuffle_window = 1U << 16U;  ///< within blocks of this many examples
  IndexType value_type = IndexType::int64;
  MalformedLimit malformed;  ///< of an epoch
};

/**
 * @brief The click logs of Criteo: lines of 40 columns with tabs between them, as a file or gzip.
 *
 * Label (0 or 1), 13 integers, 26 categories. Dense features I1 .. I13 are log(1 + max(x, 0)), 0
 * where there is none. Sparse features C1 .. C26 have one id, a hash of the category below the rows
 * of the table, or none where the column is empty. Lines that are not so are counted and left out.
 *
 * The file is read as it is needed, again for each epoch. Seeking reads all before the position.
 * More malformed lines than the limit are a DataError.
 */
class CriteoSource final : public EpochSource {
 public:
  /** @throws std::invalid_argument for settings that make no sense */
  CriteoSource(ByteSource file, const CriteoSettings& settings, const PinnedStaging& staging);
  ~CriteoSource() override;

  [[nodiscard]] const InputSchema& schema() const override;
  [[nodiscard]] BatchPosition position() const override;

  /** @brief Of this epoch up to now. From any thread. */
  [[nodiscard]] MalformedLines malformed() const;
  /** @brief Of an epoch, by the share of the file that was read; in the end exact. Nothing before
   *         the first batch, or where that share is not known. From any thread. */
  [[nodiscard]] std::optional<std::uint64_t> examples_expected() const;

 private:
  [[nodiscard]] std::optional<ModelInput> do_next() override;
  void do_seek(BatchPosition position) override;

  class Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace millrace
