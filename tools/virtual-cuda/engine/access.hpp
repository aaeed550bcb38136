#pragma once

#include <cstddef>

namespace millrace::virtual_cuda {

/** @brief Bytes that an operation reads or writes. */
struct Access {
  static constexpr std::size_t kToTheEnd = ~std::size_t{0};  ///< `bytes` up to the allocation's end

  const void* address = nullptr;
  std::size_t bytes = 0;
  bool writes = false;
};

}  // namespace millrace::virtual_cuda
