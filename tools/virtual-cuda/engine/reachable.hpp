#pragma once

namespace millrace::virtual_cuda {

/**
 * @brief Whether a kernel on `gpu` may touch the byte at `address`.
 *
 * It may if the byte is
 *   - pinned, registered or managed host memory (in a pinned pool: with access for this GPU),
 *   - in memory of the GPU itself,
 *   - in memory of cudaMalloc on another GPU to which this one's peer access is enabled,
 *   - in a pool of another GPU that gave this one access (cudaMemPoolSetAccess), or
 *   - in mapped memory of any GPU to which this one has access (cuMemSetAccess).
 *
 * The caller holds the engine's lock.
 */
[[nodiscard]] bool reachable(const void* address, unsigned gpu);

}  // namespace millrace::virtual_cuda
