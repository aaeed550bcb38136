#pragma once

#include <cstddef>

#include "cublas/handle.hpp"

namespace millrace::virtual_cublas {

/**
 * @brief The version of cuBLAS that this library reports: major * 10000 + minor * 100. The build
 *        defines the major version.
 */
inline constexpr int kCublasVersion = MILLRACE_CUBLAS_MAJOR == 12 ? 120900 : 130100;
/** @brief The version of the runtime that this library is linked with. */
inline constexpr std::size_t kCudartVersion = MILLRACE_CUBLAS_MAJOR == 12 ? 12090 : 13000;

/** @brief cublasGetProperty: 0 is the major version, 1 the minor one, 2 the patch level. */
[[nodiscard]] Status get_property(int property, int* value) noexcept;

/** @brief The cost of a call on a GPU. */
struct Cost {
  double flops = 0;
  double bytes = 0;  ///< bytes of device memory, read and written
};

/** @brief Facts of a cudaDataType: bytes of an element, and real products in a product of two. */
struct Element {
  double bytes = 4;
  double products = 1;
};
[[nodiscard]] Element element_of(int data_type) noexcept;

/** @brief The cost of `count` products C = A * B, of m x k and k x n elements. */
[[nodiscard]] Cost cost_of_product(double m, double n, double k, double count,
                                   const Element& element) noexcept;

/**
 * @brief Enqueues a launch with this cost that computes nothing.
 * @param function  the kernel's name in the report
 */
[[nodiscard]] Status take_turn(const char* function, cudaStream_t stream, const Cost& cost);

/** @brief Waits on the host for `stream`. */
[[nodiscard]] Status wait_for(cudaStream_t stream);

/**
 * @brief The result of a missing function: a status, and 0 for functions of the legacy interface
 *        that return a floating-point number. x86-64 returns the two in different registers.
 */
struct Refusal {
  long long status = static_cast<long long>(Status::not_supported);
  double number = 0;
};

/** @brief Prints the name of a missing function on standard error, once. */
Refusal refuse(const char* function) noexcept;

}  // namespace millrace::virtual_cublas
