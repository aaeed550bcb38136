#pragma once

// Include this before any CUDA header. CUB and Thrust then call functions of the benchmark instead
// of the CUDA runtime, which does not exist on a machine without a GPU.

#define cudaMalloc millrace_bench_cudaMalloc
#define cudaFree millrace_bench_cudaFree
#define cudaGetDevice millrace_bench_cudaGetDevice
#define cudaSetDevice millrace_bench_cudaSetDevice
#define cudaGetLastError millrace_bench_cudaGetLastError
#define cudaPeekAtLastError millrace_bench_cudaPeekAtLastError
#define cudaEventCreateWithFlags millrace_bench_cudaEventCreateWithFlags
#define cudaEventDestroy millrace_bench_cudaEventDestroy
#define cudaEventRecord millrace_bench_cudaEventRecord
#define cudaEventQuery millrace_bench_cudaEventQuery

#include <cuda_runtime_api.h>
