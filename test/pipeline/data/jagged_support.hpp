#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/pipeline/data/jagged_operations.hpp"
#include "test/support/allocators.hpp"

namespace millrace::test {

/// The content of a keyed jagged tensor as plain lists. Tests compare the real tensor with them.
struct JaggedLists {
  struct Feature {
    std::string key;
    std::vector<std::vector<std::int64_t>> bags;  ///< one bag per example
    std::vector<std::vector<float>> weights;
    bool operator==(const Feature&) const = default;
  };
  std::size_t batch_size = 0;
  bool weighted = false;
  IndexType value_type = IndexType::int64, length_type = IndexType::int32;
  std::vector<Feature> features;

  [[nodiscard]] JaggedLayout layout() const;
  bool operator==(const JaggedLists&) const = default;
};

/// Lists drawn by RapidCheck: up to 6 keys "f0", "f1", ... (from `first_key` on); bags may be
/// empty. Without arguments the batch has up to 7 examples.
[[nodiscard]] JaggedLists drawn_lists(std::size_t batch_size, bool weighted, IndexType value_type,
                                      IndexType length_type, std::size_t first_key = 0);
[[nodiscard]] JaggedLists drawn_lists();

/// A bench with allocators of device and pinned memory.
struct JaggedBench : Bench {
  using Bench::Bench;

  [[nodiscard]] JaggedScope scope() { return {.memory = memory, .stream = main}; }
  [[nodiscard]] KeyedJaggedTensor pinned_copy(const JaggedLists& lists);
  [[nodiscard]] KeyedJaggedTensor upload(const JaggedLists& lists) {
    const KeyedJaggedTensor pinned = pinned_copy(lists);
    return to_device(scope(), pinned);
  }
  /// Copies the tensor to the host and waits for the main stream. Checks that the offsets are the
  /// running sums of the lengths.
  [[nodiscard]] JaggedLists download(const KeyedJaggedTensor& tensor);

  CachingAllocator memory{ordered, source, Policy::millrace()};
  CachingAllocator host_memory{ordered, pinned, Policy::pinned()};
};

}  // namespace millrace::test
