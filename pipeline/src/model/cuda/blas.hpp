#pragma once

#include <cstddef>

namespace millrace::model::cuda {

/** @brief What NVIDIA recommends for Hopper, the most of all architectures. */
inline constexpr std::size_t kBlasWorkspace = std::size_t{32} << 20;

/**
 * @brief A cuBLAS handle on a stream, with a workspace of its own, without TF32 and atomics.
 *
 * cuBLAS is loaded when it is first asked for, from MILLRACE_CUBLAS (a file) or as the system's
 * libcublas of this build's CUDA version.
 * @throws std::runtime_error that says how to get it, if it is not there
 */
[[nodiscard]] void* create_blas(void* stream, void* workspace);
void destroy_blas(void* handle) noexcept;

}  // namespace millrace::model::cuda
