#pragma once

#include <span>

#include "millrace/pipeline/data/batch_source.hpp"

namespace millrace::experiment {

/** @brief Takes, and gives back, pinned memory for every batch that can be on its way: it is there
 *         before the first step, as with a loader that has run for a while. Taking it stops the
 *         device. */
void warm_pinned_memory(Allocator& pinned, std::span<const InputShape> batches, StreamRef copy);

/** @brief Batches of given shapes, in pinned memory that nobody has written. */
class WorkloadSource final : public BatchSource {
 public:
  WorkloadSource(Allocator& pinned, StreamRef copy, std::span<const InputShape> shapes)
      : pinned_(pinned), copy_(copy), shapes_(shapes) {}

 private:
  std::optional<ModelInput> do_next() override {
    if (shapes_.empty()) return std::nullopt;
    ModelInput batch{pinned_, copy_, shapes_.front()};
    shapes_ = shapes_.subspan(1);
    return batch;
  }

  Allocator& pinned_;
  const StreamRef copy_;
  std::span<const InputShape> shapes_;
};

}  // namespace millrace::experiment
