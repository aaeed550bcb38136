#pragma once

#include "engine/runtime.hpp"

namespace millrace::virtual_cuda {

/** @brief Keeps the report's line for a stream that is being destroyed. */
void note_stream_for_report(const CUstream_st& stream);
/** @brief Adds `bytes` to a stream's pool memory; called under the engine's lock. */
void note_allocated(CUstream_st& stream, std::ptrdiff_t bytes);
/** @brief Writes what the program did, if MILLRACE_VIRTUAL_REPORT asks for it. */
void write_report(Runtime& runtime) noexcept;

}  // namespace millrace::virtual_cuda
