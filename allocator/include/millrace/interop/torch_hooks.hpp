#pragma once

#include <functional>

#include "millrace.h"
#include "millrace/interop/torch_records.hpp"

/// @file
/// The hooks of PyTorch's CUDAPluggableAllocator for pools. They have C++ types, so they are not in
/// millrace.h; PyTorch calls them by address. They return nothing and throw nothing.
/// millrace_last_status() has the status of the thread's last failed call. docs/c-interface.md
/// lists all nine hooks.

// NOLINTBEGIN(readability-identifier-naming): names of a C interface

/**
 * @brief set_begin_allocate_to_pool: requests on streams that `filter` accepts get memory of the
 *        pool from now on. A capture of the calling thread's stream may follow.
 */
extern "C" MILLRACE_EXPORT void millrace_torch_begin_allocate_to_pool(
    int device, millrace::TorchPoolId pool, std::function<bool(CUstream_st*)> filter);

/** @brief set_end_allocate_to_pool_fn. Call it after the driver's capture has ended. */
extern "C" MILLRACE_EXPORT void millrace_torch_end_allocate_to_pool(int device,
                                                                    millrace::TorchPoolId pool);

/** @brief set_release_pool: ends one use of the pool. See TorchMemory::release_pool. */
extern "C" MILLRACE_EXPORT void millrace_torch_release_pool(int device, millrace::TorchPoolId pool);

// NOLINTEND(readability-identifier-naming)
