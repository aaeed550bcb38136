#include <array>

#include "allocator/subjects/subject.hpp"

// MILLRACE_BENCH_CCCL: the headers of CUB and Thrust were found. MILLRACE_BENCH_CUDA: CUDA was
// found.
#if !defined(MILLRACE_BENCH_CCCL) || !defined(MILLRACE_BENCH_CUDA)
#error "bench/allocator/CMakeLists.txt defines both as 0 or 1"
#endif

namespace millrace::bench {
namespace {

#if MILLRACE_BENCH_CCCL
#define MILLRACE_WITH_CCCL(maker) .make = maker
#else
#define MILLRACE_WITH_CCCL(maker) .left_out = "this build found no headers of CUB and Thrust"
#endif
#if MILLRACE_BENCH_CUDA
#define MILLRACE_WITH_CUDA(maker) .make = maker
#else
#define MILLRACE_WITH_CUDA(maker) .left_out = "this build has no CUDA"
#endif

constexpr std::array kSubjects{
    SubjectRow{.name = "millrace",
               .what = "CachingAllocator, preset millrace",
               .make = make_millrace,
               .millrace = true},
    SubjectRow{.name = "millrace-no-ranges",
               .what = "the same without growable ranges",
               .make = make_millrace_without_ranges,
               .millrace = true},
    SubjectRow{.name = "torch",
               .what = "CachingAllocator, preset torch",
               .make = make_torch_preset,
               .millrace = true},
    SubjectRow{.name = "cub",
               .what = "cub::CachingDeviceAllocator, bins of powers of two from 512 bytes",
               MILLRACE_WITH_CCCL(make_cub)},
    SubjectRow{.name = "thrust-pool",
               .what = "thrust::mr::disjoint_unsynchronized_pool_resource",
               MILLRACE_WITH_CCCL(make_thrust_pool),
               .threads = false},
    SubjectRow{.name = "thrust-locked-pool",
               .what = "thrust::mr::disjoint_synchronized_pool_resource",
               MILLRACE_WITH_CCCL(make_thrust_locked_pool)},
    SubjectRow{.name = "driver-pool",
               .what = "cudaMallocAsync, a pool that keeps what is freed",
               MILLRACE_WITH_CUDA(make_driver_pool),
               .only_gpu = true},
    SubjectRow{.name = "cuda-malloc",
               .what = "cudaMalloc and cudaFree",
               MILLRACE_WITH_CUDA(make_cuda_malloc),
               .only_gpu = true},
    SubjectRow{.name = "mutex-floor",
               .what = "a stack for each power of two behind one mutex; knows no streams",
               .make = make_mutex_floor},
    SubjectRow{.name = "thread-local-floor",
               .what = "the same stacks for each thread, without a lock",
               .make = make_thread_local_floor},
};

}  // namespace

std::span<const SubjectRow> subjects() { return kSubjects; }

}  // namespace millrace::bench
