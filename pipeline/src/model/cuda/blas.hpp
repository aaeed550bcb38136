#pragma once

#include <cstddef>

namespace millrace::model::cuda {

/** @brief The workspace that NVIDIA recommends for Hopper, the largest for any architecture. */
inline constexpr std::size_t kBlasWorkspace = std::size_t{32} << 20;

/**
 * @brief Creates a cuBLAS handle for a stream, with its own workspace, and without TF32 or atomics.
 *
 * The first call loads cuBLAS: the file MILLRACE_CUBLAS, or else the system's libcublas of the CUDA
 * version that Millrace was built with.
 * @throws std::runtime_error if cuBLAS is missing; the message says how to get it
 */
[[nodiscard]] void* create_blas(void* stream, void* workspace);
void destroy_blas(void* handle) noexcept;

}  // namespace millrace::model::cuda
