#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "millrace/memory/buffer.hpp"
#include "millrace/pipeline/model/sparse_nn.hpp"

namespace millrace {

/** @brief Keeps the loss of every step, and waits for the device once in about 1,000 steps. */
class LossLog {
 public:
  LossLog(Allocator& pinned, Stream& main) : main_(main), losses_(pinned, kKept, main) {}

  /**
   * @brief Enqueues a copy of the model's last loss. @param examples  number of examples in that
   * mean
   */
  void add(SparseNN& model, std::size_t examples) {
    if (sizes_.size() == kKept) collect();
    model.copy_loss(losses_.data() + sizes_.size());
    sizes_.push_back(examples);
  }

  /** @brief Returns the sum over all examples since the last call. Blocks until main is idle. */
  [[nodiscard]] double take_sum() {
    collect();
    return std::exchange(sum_, 0);
  }

  /** @brief Checks the losses that were added since the last check. Blocks until main is idle. */
  void collect() {
    main_.synchronize();
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const float loss = losses_.data()[i];
      if (!std::isfinite(loss) && !first_not_finite_) first_not_finite_ = collected_ + i;
      sum_ += static_cast<double>(loss) * static_cast<double>(sizes_[i]);
    }
    collected_ += sizes_.size();
    sizes_.clear();
  }

  /**
   * @brief Returns the number, from 0, of the first step whose loss was found to be infinite or
   * NaN.
   */
  [[nodiscard]] std::optional<std::uint64_t> first_not_finite() const noexcept {
    return first_not_finite_;
  }
  [[nodiscard]] std::uint64_t added() const noexcept { return collected_ + sizes_.size(); }

 private:
  static constexpr std::size_t kKept = 1024;

  Stream& main_;
  Array<float> losses_;
  std::vector<std::size_t> sizes_;
  std::uint64_t collected_ = 0;
  std::optional<std::uint64_t> first_not_finite_;
  double sum_ = 0;
};

}  // namespace millrace
