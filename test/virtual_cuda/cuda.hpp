#pragma once

/// @file
/// CUDA's runtime for the tests of the virtual runtime: the toolkit's header, or without a toolkit
/// the virtual runtime's own declarations.

#if MILLRACE_TEST_TOOLKIT
#include <cuda_runtime_api.h>
#else
#include "abi/cuda_runtime_api.h"
#include "abi/functions.h"
#endif
