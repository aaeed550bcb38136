#pragma once

#include <span>

#include "millrace/pipeline/data/batch_source.hpp"

namespace millrace::experiment {

/**
 * @brief Allocates and frees pinned memory for all batches, so that the allocator has it cached.
 *
 * Allocating pinned memory stops the device. A loader that has run for a while no longer allocates.
 * This function keeps these stops out of the measured steps.
 */
void warm_pinned_memory(Allocator& pinned, std::span<const InputShape> batches, StreamRef copy);

/** @brief Batches of given shapes, in pinned memory with undefined content. */
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
