// Functions of cuBLAS that compute nothing. They take their turn in the stream, and the time of
// their flops and bytes. Functions for a handle's settings are here, too.

#include <cstring>

#include "cublas/status.hpp"
#include "cublas/turn.hpp"

using namespace millrace::virtual_cublas;

namespace {

constexpr int kFloat = 0;  // cudaDataType
constexpr int kDouble = 1;
constexpr int kComplex = 4;
constexpr int kDoubleComplex = 5;

Status product(const char* function, const Handle* handle, long long m, long long n, long long k,
               long long count, int data_type) {
  if (handle == nullptr) return Status::not_initialized;
  if (m < 0 || n < 0 || k < 0 || count < 0) return Status::invalid_value;
  if (m == 0 || n == 0 || count == 0) return Status::success;
  return take_turn(
      function, handle->stream,
      cost_of_product(static_cast<double>(m), static_cast<double>(n), static_cast<double>(k),
                      static_cast<double>(count), element_of(data_type)));
}

/** A result on the host is zero. The host waits for it as for a real result. */
Status dot(const char* function, const Handle* handle, int count, void* result, int data_type) {
  if (handle == nullptr) return Status::not_initialized;
  if (result == nullptr || count < 0) return Status::invalid_value;
  const Element element = element_of(data_type);
  const Status status = take_turn(function, handle->stream,
                                  {2.0 * count * element.products, 2 * count * element.bytes});
  if (status != Status::success || handle->pointer_mode != 0) return status;
  if (wait_for(handle->stream) != Status::success) return Status::failed;
  std::memset(result, 0, static_cast<std::size_t>(element.bytes));
  return Status::success;
}

template <typename Value>
Status give(const Handle* handle, Value Handle::*kept, Value* out) {
  if (handle == nullptr) return Status::not_initialized;
  if (out == nullptr) return Status::invalid_value;
  *out = handle->*kept;
  return Status::success;
}

template <typename Value>
Status keep(Handle* handle, Value Handle::*kept, Value value) {
  if (handle == nullptr) return Status::not_initialized;
  handle->*kept = value;
  return Status::success;
}

}  // namespace

MILLRACE_EXPORT Status cublasGetStream_v2(Handle* handle, cudaStream_t* stream) {
  return give(handle, &Handle::stream, stream);
}
MILLRACE_EXPORT Status cublasGetMathMode(Handle* handle, int* mode) {
  return give(handle, &Handle::math_mode, mode);
}
MILLRACE_EXPORT Status cublasGetAtomicsMode(Handle* handle, int* mode) {
  return give(handle, &Handle::atomics_mode, mode);
}
MILLRACE_EXPORT Status cublasGetPointerMode_v2(Handle* handle, int* mode) {
  return give(handle, &Handle::pointer_mode, mode);
}
MILLRACE_EXPORT Status cublasSetPointerMode_v2(Handle* handle, int mode) {
  return keep(handle, &Handle::pointer_mode, mode);
}
MILLRACE_EXPORT Status cublasGetSmCountTarget(Handle* handle, int* count) {
  return give(handle, &Handle::multiprocessors, count);
}
MILLRACE_EXPORT Status cublasSetSmCountTarget(Handle* handle, int count) {
  return keep(handle, &Handle::multiprocessors, count);
}
MILLRACE_EXPORT Status cublasGetVersion_v2(Handle*, int* version) {
  if (version == nullptr) return Status::invalid_value;
  *version = kCublasVersion;
  return Status::success;
}

MILLRACE_EXPORT Status cublasGetVersion(int* version) {
  return cublasGetVersion_v2(nullptr, version);
}
MILLRACE_EXPORT Status cublasGetProperty(int property, int* value) {
  return get_property(property, value);
}
MILLRACE_EXPORT std::size_t cublasGetCudartVersion() { return kCudartVersion; }
MILLRACE_EXPORT const char* cublasGetStatusName(int status) { return name_of_status(status); }
MILLRACE_EXPORT const char* cublasGetStatusString(int status) { return text_of_status(status); }

// Products. They do not read the scalars and matrices.

#define MILLRACE_PRODUCTS(letter, data_type)                                                      \
  MILLRACE_EXPORT Status cublas##letter##gemmStridedBatched(                                      \
      Handle* handle, int, int, int m, int n, int k, const void*, const void*, int, long long,    \
      const void*, int, long long, const void*, void*, int, long long, int count) {               \
    return product("cublas" #letter "gemmStridedBatched", handle, m, n, k, count, data_type);     \
  }                                                                                               \
  MILLRACE_EXPORT Status cublas##letter##gemmBatched(                                             \
      Handle* handle, int, int, int m, int n, int k, const void*, const void* const*, int,        \
      const void* const*, int, const void*, void* const*, int, int count) {                       \
    return product("cublas" #letter "gemmBatched", handle, m, n, k, count, data_type);            \
  }                                                                                               \
  MILLRACE_EXPORT Status cublas##letter##gemv_v2(Handle* handle, int, int m, int n, const void*,  \
                                                 const void*, int, const void*, int, const void*, \
                                                 void*, int) {                                    \
    return product("cublas" #letter "gemv", handle, m, 1, n, 1, data_type);                       \
  }
#define MILLRACE_GEMM(letter, data_type)                                                          \
  MILLRACE_EXPORT Status cublas##letter##gemm_v2(Handle* handle, int, int, int m, int n, int k,   \
                                                 const void*, const void*, int, const void*, int, \
                                                 const void*, void*, int) {                       \
    return product("cublas" #letter "gemm", handle, m, n, k, 1, data_type);                       \
  }
MILLRACE_PRODUCTS(S, kFloat)
MILLRACE_PRODUCTS(D, kDouble)
MILLRACE_PRODUCTS(C, kComplex)
MILLRACE_PRODUCTS(Z, kDoubleComplex)
MILLRACE_GEMM(D, kDouble)
MILLRACE_GEMM(C, kComplex)
MILLRACE_GEMM(Z, kDoubleComplex)

MILLRACE_EXPORT Status cublasSgemmEx(Handle* handle, int, int, int m, int n, int k, const void*,
                                     const void*, int a_type, int, const void*, int, int,
                                     const void*, void*, int, int) {
  return product("cublasSgemmEx", handle, m, n, k, 1, a_type);
}
MILLRACE_EXPORT Status cublasGemmEx(Handle* handle, int, int, int m, int n, int k, const void*,
                                    const void*, int a_type, int, const void*, int, int,
                                    const void*, void*, int, int, int, int) {
  return product("cublasGemmEx", handle, m, n, k, 1, a_type);
}
MILLRACE_EXPORT Status cublasGemmStridedBatchedEx(Handle* handle, int, int, int m, int n, int k,
                                                  const void*, const void*, int a_type, int,
                                                  long long, const void*, int, int, long long,
                                                  const void*, void*, int, int, long long,
                                                  int count, int, int) {
  return product("cublasGemmStridedBatchedEx", handle, m, n, k, count, a_type);
}
MILLRACE_EXPORT Status cublasGemmBatchedEx(Handle* handle, int, int, int m, int n, int k,
                                           const void*, const void* const*, int a_type, int,
                                           const void* const*, int, int, const void*, void* const*,
                                           int, int, int count, int, int) {
  return product("cublasGemmBatchedEx", handle, m, n, k, count, a_type);
}

#define MILLRACE_DOT(name, data_type)                                                   \
  MILLRACE_EXPORT Status cublas##name##_v2(Handle* handle, int count, const void*, int, \
                                           const void*, int, void* result) {            \
    return dot("cublas" #name, handle, count, result, data_type);                       \
  }
MILLRACE_DOT(Sdot, kFloat)
MILLRACE_DOT(Ddot, kDouble)
MILLRACE_DOT(Cdotu, kComplex)
MILLRACE_DOT(Cdotc, kComplex)
MILLRACE_DOT(Zdotu, kDoubleComplex)
MILLRACE_DOT(Zdotc, kDoubleComplex)
MILLRACE_EXPORT Status cublasDotEx(Handle* handle, int count, const void*, int, int, const void*,
                                   int, int, void* result, int result_type, int) {
  return dot("cublasDotEx", handle, count, result, result_type);
}
