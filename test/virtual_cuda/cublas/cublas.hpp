#pragma once

#include "test/virtual_cuda/laws/gpu.hpp"

/// @file
/// The functions of cuBLAS and cuBLASLt that the tests call. No toolkit that the build requires has
/// their headers. Handles and descriptions are opaque.

extern "C" {
int cublasCreate_v2(void** handle);
int cublasDestroy_v2(void* handle);
int cublasSetStream_v2(void* handle, cudaStream_t stream);
int cublasSetPointerMode_v2(void* handle, int mode);
int cublasGetPointerMode_v2(void* handle, int* mode);
int cublasGemmEx(void* handle, int transposed_a, int transposed_b, int m, int n, int k,
                 const void* alpha, const void* a, int a_type, int lda, const void* b, int b_type,
                 int ldb, const void* beta, void* c, int c_type, int ldc, int compute,
                 int algorithm);
int cublasSdot_v2(void* handle, int count, const float* x, int x_step, const float* y, int y_step,
                  float* result);
int cublasSasum_v2(void* handle, int count, const float* x, int step, float* result);
float cublasSasum(int count, const float* x, int step);
int cublasGetVersion_v2(void* handle, int* version);
int cublasGetProperty(int property, int* value);
std::size_t cublasGetCudartVersion();
const char* cublasGetStatusName(int status);
const char* cublasGetStatusString(int status);
const char* cublasLtGetStatusName(int status);
const char* cublasLtGetStatusString(int status);
int cublasLtGetProperty(int property, int* value);
unsigned cublasLtDisableCpuInstructionsSetMask(unsigned mask);
int cublasLtCreate(void** handle);
int cublasLtDestroy(void* handle);
int cublasLtMatmulDescCreate(void** made, int compute, int scale);
int cublasLtMatmulDescDestroy(void* description);
int cublasLtMatmulDescSetAttribute(void* description, int attribute, const void* value,
                                   std::size_t bytes);
int cublasLtMatmulDescGetAttribute(void* description, int attribute, void* value, std::size_t bytes,
                                   std::size_t* written);
int cublasLtMatrixLayoutCreate(void** made, int type, unsigned long long rows,
                               unsigned long long columns, long long leading);
int cublasLtMatrixLayoutDestroy(void* layout);
int cublasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value,
                                     std::size_t bytes);
int cublasLtMatmul(void* handle, void* operation, const void* alpha, const void* a, void* a_layout,
                   const void* b, void* b_layout, const void* beta, const void* c, void* c_layout,
                   void* d, void* d_layout, const void* algorithm, void* workspace,
                   std::size_t bytes, cudaStream_t stream);
}
