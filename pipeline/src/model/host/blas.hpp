#pragma once

#include <cstddef>

namespace millrace::model::host {

enum class Transposed : bool { no, yes };

template <typename T>
struct Operand {
  const T* data = nullptr;
  Transposed transposed = Transposed::no;
};

/** @brief c is rows x columns, and `inner` is what the product sums over. */
struct ProductShape {
  std::size_t rows = 0, columns = 0, inner = 0;
};

/**
 * @brief c = a b, or c += a b, of row-major matrices, each as wide as it is stored.
 *
 * The BLAS runs on the calling thread alone: how work would be divided among threads is the one
 * thing that its results could depend on from run to run. Another processor may give other bits.
 */
void multiply(float* c, Operand<float> a, Operand<float> b, ProductShape shape, bool add);
void multiply(double* c, Operand<double> a, Operand<double> b, ProductShape shape, bool add);

}  // namespace millrace::model::host
