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
 * @brief c = a b, or c += a b, for row-major matrices without padding.
 *
 * The BLAS runs on the calling thread alone. Results would otherwise depend on how the work is
 * divided among threads, which differs from run to run. Another processor may give other bits.
 */
void multiply(float* c, Operand<float> a, Operand<float> b, ProductShape shape, bool add);
void multiply(double* c, Operand<double> a, Operand<double> b, ProductShape shape, bool add);

}  // namespace millrace::model::host
