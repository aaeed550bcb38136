#pragma once

#include <cstddef>

namespace millrace::model::host {

enum class Transposed : bool { no, yes };

template <typename T>
struct Operand {
  const T* data = nullptr;
  Transposed transposed = Transposed::no;
};

/** @brief c is [rows x columns]; `inner` is the dimension over which the product sums. */
struct ProductShape {
  std::size_t rows = 0, columns = 0, inner = 0;
};

/**
 * @brief Computes c = a b, or c += a b if `add`, for row-major matrices without padding.
 *
 * The BLAS runs only on the calling thread. With several threads, results would depend on the
 * division of the work, which differs from run to run. Another processor may give other bits.
 */
void multiply(float* c, Operand<float> a, Operand<float> b, ProductShape shape, bool add);
void multiply(double* c, Operand<double> a, Operand<double> b, ProductShape shape, bool add);

}  // namespace millrace::model::host
