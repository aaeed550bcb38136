#pragma once

/// @file
/// CUDA's runtime, as the tests of the virtual one see it: the toolkit's header, or where there is
/// no toolkit the virtual runtime's own declarations.

#if MILLRACE_TEST_TOOLKIT
#include <cuda_runtime_api.h>
#else
#include "abi/cuda_runtime_api.h"
#include "abi/functions.h"
#endif
