#pragma once

/// @file
/// Functions that the runtime exports for code that nvcc generates.

extern "C" {
void** __cudaRegisterFatBinary(void* binary);
void __cudaRegisterFatBinaryEnd(void** module);
void __cudaRegisterFunction(void** module, const char* host_function, char* device_function,
                            const char* name, int thread_limit, void* thread, void* block,
                            void* block_size, void* grid_size, int* warp);
}
