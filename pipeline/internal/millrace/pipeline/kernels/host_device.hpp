#pragma once

/// @file
/// MILLRACE_HOST_DEVICE: for functions that host kernels and CUDA kernels share.

#ifdef __CUDACC__
#define MILLRACE_HOST_DEVICE __host__ __device__
#else
#define MILLRACE_HOST_DEVICE
#endif
