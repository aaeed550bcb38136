#include "model/host/blas.hpp"

#include <cblas.h>

#include <algorithm>

namespace millrace::model::host {
namespace {

template <typename T>
struct Call {
  CBLAS_TRANSPOSE a, b;
  blasint rows, columns, inner, stride_a, stride_b;
  T factor_c;
};

CBLAS_TRANSPOSE blas_transpose(Transposed transposed) {
  return transposed == Transposed::yes ? CblasTrans : CblasNoTrans;
}

template <typename T>
Call<T> call_of(Operand<T> a, Operand<T> b, ProductShape shape, bool add) {
  [[maybe_unused]] static const bool one_thread = (openblas_set_num_threads(1), true);
  const auto rows = static_cast<blasint>(shape.rows);
  const auto columns = static_cast<blasint>(shape.columns);
  const auto inner = static_cast<blasint>(shape.inner);
  return {blas_transpose(a.transposed),
          blas_transpose(b.transposed),
          rows,
          columns,
          inner,
          std::max<blasint>(1, a.transposed == Transposed::yes ? rows : inner),
          std::max<blasint>(1, b.transposed == Transposed::yes ? inner : columns),
          add ? T{1} : T{0}};
}

}  // namespace

void multiply(float* c, Operand<float> a, Operand<float> b, ProductShape shape, bool add) {
  if (shape.rows == 0 || shape.columns == 0) return;
  const auto call = call_of(a, b, shape, add);
  cblas_sgemm(CblasRowMajor, call.a, call.b, call.rows, call.columns, call.inner, 1, a.data,
              call.stride_a, b.data, call.stride_b, call.factor_c, c, call.columns);
}

void multiply(double* c, Operand<double> a, Operand<double> b, ProductShape shape, bool add) {
  if (shape.rows == 0 || shape.columns == 0) return;
  const auto call = call_of(a, b, shape, add);
  cblas_dgemm(CblasRowMajor, call.a, call.b, call.rows, call.columns, call.inner, 1, a.data,
              call.stride_a, b.data, call.stride_b, call.factor_c, c, call.columns);
}

}  // namespace millrace::model::host
