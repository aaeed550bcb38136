#pragma once

#include <cstddef>

#include "cublas/handle.hpp"

namespace millrace::virtual_cublas {

/**
 * @brief The version of cuBLAS that this stands for: major * 10000 + minor * 100. The build defines
 *        the major version of the library that it makes.
 */
inline constexpr int kCublasVersion = MILLRACE_CUBLAS_MAJOR == 12 ? 120900 : 130100;
/** @brief The version of the runtime that this library is linked with. */
inline constexpr std::size_t kCudartVersion = MILLRACE_CUBLAS_MAJOR == 12 ? 12090 : 13000;

/** @brief cublasGetProperty: 0 is the major version, 1 the minor one, 2 the patch level. */
[[nodiscard]] Status get_property(int property, int* value) noexcept;

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

/**
 * @brief What a function that is lacking returns: a status, and 0 for the functions of the legacy
 *        interface that return a floating-point number (x86-64 has the two in different registers).
 */
struct Refusal {
  long long status = static_cast<long long>(Status::not_supported);
  double number = 0;
};

/** @brief Names a function that is lacking on standard error, once. */
Refusal refuse(const char* function) noexcept;

}  // namespace millrace::virtual_cublas
