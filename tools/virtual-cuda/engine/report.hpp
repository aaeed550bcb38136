#pragma once

#include "engine/runtime.hpp"

namespace millrace::virtual_cuda {

/** @brief Keeps what the report says of a stream that is destroyed. */
void note_stream_for_report(const CUstream_st& stream);
/** @brief A stream's memory from a pool changed by `bytes`; called under the engine's lock. */
void note_allocated(CUstream_st& stream, std::ptrdiff_t bytes);
/** @brief Writes what the program did, if MILLRACE_VIRTUAL_REPORT asks for it. */
void write_report(Runtime& runtime) noexcept;

}  // namespace millrace::virtual_cuda
