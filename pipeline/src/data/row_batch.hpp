#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/pipeline/data/epoch_source.hpp"

namespace millrace {

/** @brief Collects examples that have at most one id for each sparse feature. */
class RowBatch {
 public:
  static constexpr std::int64_t kNone = -1;  ///< the feature has no id: an empty bag

  /** @param schema  without weighted features; outlives this */
  explicit RowBatch(const InputSchema& schema);

  void add(float label, std::span<const float> dense, std::span<const std::int64_t> ids);
  [[nodiscard]] std::size_t size() const noexcept { return labels_.size(); }
  /**
   * @brief Copies the examples so far to a batch in pinned memory. They stay here until `clear`.
   */
  [[nodiscard]] ModelInput stage(const PinnedStaging& staging) const;
  void clear();

 private:
  template <typename Index>
  void write_values(const KeyedJaggedTensor& to) const;
  template <typename Index>
  void write_lengths(const KeyedJaggedTensor& to) const;

  const InputSchema& schema_;
  Keys keys_;
  std::vector<float> dense_, labels_;
  std::vector<std::int64_t> ids_;  ///< row-major
  std::vector<std::size_t> counts_;
};

}  // namespace millrace
