#pragma once

#include <cstddef>
#include <vector>

#include "millrace/memory/buffer.hpp"
#include "millrace/pipeline/model/sparse_nn.hpp"

namespace millrace {

/** @brief Keeps the loss of every step, and waits for the device once in a thousand. */
class LossLog {
 public:
  LossLog(Allocator& pinned, Stream& main) : main_(main), losses_(pinned, kKept, main) {}

  /** @brief Enqueues a copy of the model's last loss. @param examples  it is the mean of */
  void add(SparseNN& model, std::size_t examples) {
    if (sizes_.size() == kKept) collect();
    model.copy_loss(losses_.data() + sizes_.size());
    sizes_.push_back(examples);
  }

  /** @brief Sum over all examples since this was last asked. Waits for main. */
  [[nodiscard]] double take_sum() {
    collect();
    return std::exchange(sum_, 0);
  }

 private:
  static constexpr std::size_t kKept = 1024;

  void collect() {
    main_.synchronize();
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      sum_ += static_cast<double>(losses_.data()[i]) * static_cast<double>(sizes_[i]);
    }
    sizes_.clear();
  }

  Stream& main_;
  Array<float> losses_;
  std::vector<std::size_t> sizes_;
  double sum_ = 0;
};

}  // namespace millrace
