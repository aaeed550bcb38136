#pragma once

#include <span>
#include <vector>

#include "millrace/pipeline/data/epoch_source.hpp"
#include "test/pipeline/data/jagged_support.hpp"

namespace millrace::test {

/// The bytes of a batch, tensor by tensor.
using BatchBytes = std::vector<std::vector<std::byte>>;

[[nodiscard]] inline BatchBytes bytes_of(const ModelInput& batch) {
  BatchBytes bytes;
  for (const HostTensor& tensor : batch.tensors()) {
    const auto* const data = static_cast<const std::byte*>(tensor.data);
    bytes.emplace_back(data, data + tensor.bytes);
  }
  return bytes;
}

/// The remaining batches of the epoch.
[[nodiscard]] inline std::vector<BatchBytes> rest_of(EpochSource& source) {
  std::vector<BatchBytes> batches;
  while (const auto batch = source.next()) batches.push_back(bytes_of(*batch));
  return batches;
}

/// FNV-1a hash of all bytes of the epoch's remaining batches.
[[nodiscard]] inline std::uint64_t digest_of_rest(EpochSource& source) {
  std::uint64_t digest = 0xcbf29ce484222325U;
  for (const BatchBytes& batch : rest_of(source)) {
    for (const auto& tensor : batch) {
      for (const std::byte value : tensor) {
        digest = (digest ^ std::to_integer<std::uint64_t>(value)) * 0x100000001b3U;
      }
    }
  }
  return digest;
}

template <typename T>
[[nodiscard]] std::vector<T> list(const BatchTensor& tensor) {
  const auto values = tensor.as<const T>();
  return {values.begin(), values.end()};
}

}  // namespace millrace::test
