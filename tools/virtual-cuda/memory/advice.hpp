#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "abi/cuda_runtime_api.h"

namespace millrace::virtual_cuda {

/**
 * @brief The program's advice on managed memory (cudaMemAdvise) and its prefetches, by pages of
 *        4 KiB. Only cudaMemRangeGetAttribute uses it, because managed memory is host memory here.
 */
class ManagedAdvice {
 public:
  static constexpr std::uintptr_t kPage = 4096;

  struct Advice {
    bool read_mostly = false;
    cudaMemLocation preferred{cudaMemLocationTypeInvalid, cudaInvalidDeviceId};
    cudaMemLocation prefetched{cudaMemLocationTypeInvalid, cudaInvalidDeviceId};
    std::set<int> accessed_by;  ///< GPUs, and cudaCpuDeviceId
  };

  /** @brief Calls `change(Advice&)` for all pages that the range touches. */
  template <typename Change>
  void change(const void* address, std::size_t bytes, Change change) {
    const Range range = pages_of(address, bytes);
    for (std::uintptr_t page = range.begin; page < range.end;) {
      const auto piece = cut(page, range.end);
      change(piece->second.advice);
      page = piece->second.end;
    }
  }
  /** @brief The advice that all pages of the range share. Different locations give none. */
  [[nodiscard]] Advice common(const void* address, std::size_t bytes) const;
  /** @brief Removes the advice, because the memory is freed. */
  void forget(const void* address, std::size_t bytes);

 private:
  struct Range {
    std::uintptr_t begin, end;
  };
  struct Piece {
    std::uintptr_t end;
    Advice advice;
  };
  using Pieces = std::map<std::uintptr_t, Piece>;

  [[nodiscard]] static Range pages_of(const void* address, std::size_t bytes);
  void split(std::uintptr_t page);
  /** A piece that begins at `page` and ends at or before `end`. */
  [[nodiscard]] Pieces::iterator cut(std::uintptr_t page, std::uintptr_t end);

  Pieces pieces_;
};

}  // namespace millrace::virtual_cuda
