#include "data/cuda/kernels.hpp"
#include "millrace/config.hpp"

#if !MILLRACE_HAS_CUDA

namespace millrace::cuda {

Launch copy_segments(std::vector<DeviceSegment>) { return {}; }
Launch prefix_sum(const PrefixSum&) { return {}; }

}  // namespace millrace::cuda

#endif
