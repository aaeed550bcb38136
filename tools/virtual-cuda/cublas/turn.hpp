#pragma once

#include <cstddef>

#include "cublas/handle.hpp"

namespace millrace::virtual_cublas {

/** @brief The version of the documentation that this follows: major * 10000 + minor * 100. */
inline constexpr int kCublasVersion = 130100;

/** @brief What a call costs a GPU. */
struct Cost {
  double flops = 0;
  double bytes = 0;  ///< of device memory, read and written
};

/** @brief cudaDataType: bytes of an element, and how many real products one product of it is. */
struct Element {
  double bytes = 4;
  double products = 1;
};
[[nodiscard]] Element element_of(int data_type) noexcept;

/** @brief The cost of `count` products C = A * B, of m x k and k x n elements. */
[[nodiscard]] Cost cost_of_product(double m, double n, double k, double count,
                                   const Element& element) noexcept;

/**
 * @brief Enqueues a launch that costs what it is told and computes nothing.
 * @param function  names it in the report
 */
[[nodiscard]] Status take_turn(const char* function, cudaStream_t stream, const Cost& cost);

/** @brief The host waits for `stream`. */
[[nodiscard]] Status wait_for(cudaStream_t stream);

/** @brief Names a function that is lacking on standard error, once. @return `not_supported` */
Status refuse(const char* function) noexcept;

}  // namespace millrace::virtual_cublas
