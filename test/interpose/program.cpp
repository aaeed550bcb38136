// A CUDA program that knows nothing of Millrace, with one case per name. It exits with 0 if its
// results are right. `millrace run` runs it, and the program must not notice that.
//
//   interpose_program CASE [SEED]

#include <dlfcn.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "test/interpose/cuda.hpp"
#include "test/support/forked.hpp"

namespace program {
namespace {

using forked::exit_code_of_child;

int try_malloc() {
  void* block = nullptr;
  return cudaMalloc(&block, 64);
}

int fork_after_first_call() {
  unsigned char* const block = allocate(4096);
  if (exit_code_of_child(try_malloc) != cudaErrorInitializationError) return 1;
  check(cudaFree(block), "cudaFree");
  allocate(4096);  // the parent continues
  return 0;
}

int fork_before_first_call() {
  if (exit_code_of_child(try_malloc) != cudaSuccess) return 1;
  allocate(4096);
  return 0;
}

int exit_in_a_host_function() {
  const cudaStream_t stream = make_stream();
  allocate(4096, stream);
  check(cudaLaunchHostFunc(
            stream, [](void*) { std::exit(3); }, nullptr),
        "cudaLaunchHostFunc");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return 1;  // it does not return
}

/// Constructed before CUDA, so destroyed after CUDA.
struct Late {
  void* block = nullptr;
  ~Late() {
    if (block != nullptr) expect(cudaFree(block), cudaErrorCudartUnloading, "a late cudaFree");
  }
} late;

int free_in_a_late_destructor() {
  late.block = allocate(4096);
  return 0;
}

struct Early {
  void* block = allocate(4096);
  ~Early() { check(cudaFree(block), "an early cudaFree"); }
};

int free_in_an_early_destructor() {
  allocate(4096);
  static Early early;
  return 0;
}

int foreign_pointers() {
  allocate(4096);  // so that Millrace's allocator exists
  void *pitched = nullptr, *managed = nullptr;
  std::size_t pitch = 0;
  check(cudaMallocPitch(&pitched, &pitch, 100, 10), "cudaMallocPitch");
  check(cudaFree(pitched), "cudaFree of cudaMallocPitch");
  check(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal), "cudaMallocManaged");
  check(cudaFree(managed), "cudaFree of cudaMallocManaged");
  int on_the_stack = 0;
  expect(cudaFree(&on_the_stack), cudaErrorInvalidValue, "cudaFree of the stack");
  expect(cudaGetLastError(), cudaErrorInvalidValue, "cudaGetLastError");
  unsigned char* const block = allocate(kMiB);
  expect(cudaFree(block + 512), cudaErrorInvalidValue, "cudaFree of the middle of a block");
  check(cudaFree(block), "cudaFree");
  expect(cudaFree(block), cudaErrorInvalidValue, "cudaFree once more");
  check(cudaFree(nullptr), "cudaFree of nullptr");
  void* nothing = &on_the_stack;
  check(cudaMalloc(&nothing, 0), "cudaMalloc of 0 bytes");
  return nothing == nullptr ? 0 : 1;
}

/// An error that was not read stays, whatever is allocated meanwhile.
int last_error_stays() {
  const cudaStream_t stream = make_stream();
  expect(cudaSetDevice(99), cudaErrorInvalidDevice, "cudaSetDevice");
  for (int i = 0; i < 10; ++i) {
    unsigned char* const block = allocate(kMiB, stream);
    check(cudaMemsetAsync(block, 1, kMiB, stream), "cudaMemsetAsync");
    check(cudaFreeAsync(block, stream), "cudaFreeAsync");
  }
  expect(cudaPeekAtLastError(), cudaErrorInvalidDevice, "cudaPeekAtLastError");
  expect(cudaGetLastError(), cudaErrorInvalidDevice, "cudaGetLastError");
  check(cudaGetLastError(), "cudaGetLastError once more");
  return 0;
}

int too_much() {
  void* block = nullptr;
  expect(cudaMalloc(&block, std::size_t{1} << 45), cudaErrorMemoryAllocation, "cudaMalloc");
  expect(cudaGetLastError(), cudaErrorMemoryAllocation, "cudaGetLastError");
  expect(cudaMallocAsync(&block, std::size_t{1} << 44, make_stream()), cudaErrorMemoryAllocation,
         "cudaMallocAsync");
  expect(cudaGetLastError(), cudaErrorMemoryAllocation, "cudaGetLastError");
  allocate(kMiB);
  return 0;
}

/// Leaves 1.5 GiB free in the allocator.
void leave_memory_free() {
  constexpr std::size_t kBytes = 1536 * kMiB;
  const cudaStream_t stream = make_stream();
  check(cudaFreeAsync(allocate(kBytes, stream), stream), "cudaFreeAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

/// Calls that the runtime serves need the memory that the allocator keeps free. The GPU has 2 GiB.
int needs_what_is_kept_free() {
  constexpr std::size_t kWidth = kMiB, kHeight = 1024;
  void* block = nullptr;
  std::size_t pitch = 0;
  leave_memory_free();
  check(cudaMallocPitch(&block, &pitch, kWidth, kHeight), "cudaMallocPitch");
  check(cudaFree(block), "cudaFree");
  leave_memory_free();
  cudaPitchedPtr pitched{};
  check(cudaMalloc3D(&pitched, {kWidth, kHeight, 1}), "cudaMalloc3D");
  check(cudaFree(pitched.ptr), "cudaFree");
  leave_memory_free();
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, {0}};
  properties.maxSize = 1100 * kMiB;  // only the driver supports a limit
  cudaMemPool_t pool = nullptr;
  check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  const cudaStream_t stream = make_stream();
  check(cudaMallocFromPoolAsync(&block, kWidth * kHeight, pool, stream), "cudaMallocFromPoolAsync");
  expect(cudaGetLastError(), cudaSuccess, "cudaGetLastError");
  check(cudaFreeAsync(block, stream), "cudaFreeAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  check(cudaMemPoolDestroy(pool), "cudaMemPoolDestroy");
  leave_memory_free();
  expect(cudaMallocPitch(&block, &pitch, kWidth, 3 * kHeight), cudaErrorMemoryAllocation,
         "cudaMallocPitch");
  expect(cudaGetLastError(), cudaErrorMemoryAllocation, "cudaGetLastError");
  return 0;
}

/// A process with a library that has the name of PyTorch's.
int beside_pytorch() {
  if (dlopen(MILLRACE_FAKE_PYTORCH, RTLD_NOW) == nullptr) return 1;
  allocate(20 * kMiB);
  return 0;
}

/// 6 MiB, a reset, 3 MiB, and a reset at the end, as profilers require.
int reset_twice() {
  for (const std::size_t bytes : {6 * kMiB, 3 * kMiB}) {
    const cudaStream_t stream = make_stream();
    unsigned char* const block = allocate(bytes, stream);
    check(cudaMemsetAsync(block, 1, bytes, stream), "cudaMemsetAsync");
    check(cudaFreeAsync(block, stream), "cudaFreeAsync");
    check(cudaDeviceReset(), "cudaDeviceReset");
  }
  return 0;
}

/// One stream per step, as some libraries make them: 8 MiB in all.
int streams_in_a_loop() {
  constexpr std::size_t kBytes = 8 * kMiB;
  for (int i = 0; i < 200; ++i) {
    const cudaStream_t stream = make_stream();
    unsigned char* const block = allocate(kBytes, stream);
    check(cudaMemsetAsync(block, i, kBytes, stream), "cudaMemsetAsync");
    check(cudaFreeAsync(block, stream), "cudaFreeAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  }
  return 0;
}

/// Four independent streams, one after the other.
int streams_side_by_side() {
  constexpr std::size_t kBytes = 24 * kMiB;
  for (int i = 0; i < 4; ++i) {
    const cudaStream_t stream = make_stream();
    unsigned char* const block = allocate(kBytes, stream);
    check(cudaMemsetAsync(block, i, kBytes, stream), "cudaMemsetAsync");
    check(cudaFreeAsync(block, stream), "cudaFreeAsync");
  }
  return cudaDeviceSynchronize();
}

/// Two streams request 900 MiB each, one after the other, while memory that only the runtime serves
/// takes half of the GPU, which has 2 GiB.
int beside_pitched_memory() {
  constexpr std::size_t kBytes = 900 * kMiB;
  void* pitched = nullptr;
  std::size_t pitch = 0;
  check(cudaMallocPitch(&pitched, &pitch, kMiB, 1024), "cudaMallocPitch");
  for (int i = 0; i < 2; ++i) {
    const cudaStream_t stream = make_stream();
    check(cudaFreeAsync(allocate(kBytes, stream), stream), "cudaFreeAsync");
  }
  return cudaFree(pitched);
}

int threads_that_end() {
  std::vector<unsigned char*> left(8);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < left.size(); ++i) {
      threads.emplace_back([&, i] {
        unsigned char* const block = allocate(kMiB, cudaStreamPerThread);
        check(cudaMemsetAsync(block, static_cast<int>(i), kMiB, cudaStreamPerThread), "a fill");
        check(cudaStreamSynchronize(cudaStreamPerThread), "cudaStreamSynchronize");
        if (left[i] != nullptr) check(cudaFreeAsync(left[i], cudaStreamPerThread), "cudaFreeAsync");
        left[i] = block;
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (!holds(left[i], kMiB, static_cast<unsigned char>(i))) return 1;
    }
  }
  for (unsigned char* const block : left) check(cudaFree(block), "cudaFree");
  return 0;
}

template <typename Function>
Function* look_up(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

/// A library is opened by hand, its functions are looked up by handle, and it is closed again.
int opened_by_hand() {
  for (int i = 0; i < 3; ++i) {
    void* const library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return 1;
    auto* const allocate_by_hand = look_up<cudaError_t(void**, std::size_t)>(library, "cudaMalloc");
    auto* const free_by_hand = look_up<cudaError_t(void*)>(library, "cudaFree");
    void* block = nullptr;
    check(allocate_by_hand(&block, kMiB), "cudaMalloc");
    check(cudaMemset(block, 5, kMiB), "cudaMemset");
    if (!holds(static_cast<unsigned char*>(block), kMiB, 5)) return 2;
    check(free_by_hand(block), "cudaFree");
    dlclose(library);
  }
  return 0;
}

int own_pool() {
  const cudaStream_t stream = make_stream();
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, {0}};
  cudaMemPool_t pool = nullptr;
  check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  void* block = nullptr;
  check(cudaMallocFromPoolAsync(&block, kMiB, pool, stream), "cudaMallocFromPoolAsync");
  check(cudaFreeAsync(block, stream), "cudaFreeAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  check(cudaMemPoolDestroy(pool), "cudaMemPoolDestroy");
  properties.maxSize = 64 * kMiB;  // only the driver supports a limit
  check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  check(cudaMallocFromPoolAsync(&block, kMiB, pool, stream), "cudaMallocFromPoolAsync");
  check(cudaFreeAsync(block, stream), "cudaFreeAsync");
  return cudaStreamSynchronize(stream);
}

/// Three blocks of 6 MiB on one stream, one after the other. Then 3 MiB of cudaMalloc and 4 MiB on
/// the stream.
int counted_by_hand() {
  const cudaStream_t stream = make_stream();
  for (int i = 0; i < 3; ++i) {
    unsigned char* const block = allocate(6 * kMiB, stream);
    check(cudaMemsetAsync(block, 1, 6 * kMiB, stream), "cudaMemsetAsync");
    check(cudaFreeAsync(block, stream), "cudaFreeAsync");
  }
  allocate(3 * kMiB);
  allocate(4 * kMiB, stream);
  return cudaDeviceSynchronize();
}

/// Allocates 6 MiB. The process then ends in the way of its case.
void begin_to_end() { allocate(6 * kMiB, make_stream()); }

int ends_by_exit_now() {
  begin_to_end();
  _exit(7);
}
int ends_by_std_exit_now() {
  begin_to_end();
  std::_Exit(7);
}
int ends_by_quick_exit() {
  begin_to_end();
  std::quick_exit(7);
}
int ends_by_abort() {
  begin_to_end();
  std::abort();
}
int ends_by_signal() {
  begin_to_end();
  return raise(SIGTERM);
}
int ends_by_fault() {
  *static_cast<volatile unsigned char*>(allocate(6 * kMiB, make_stream())) = 1;
  return 1;
}

/// A program's signal handler stays, even if it was set before the first CUDA call.
int handles_its_signal() {
  struct sigaction action {};
  action.sa_handler = [](int) { _exit(5); };
  sigaction(SIGTERM, &action, nullptr);
  begin_to_end();
  action.sa_handler = [](int) { _exit(6); };
  sigaction(SIGINT, &action, nullptr);
  static_cast<void>(raise(SIGINT));
  return 1;
}

/// Children of fork and vfork that end with _exit leave the report to their parent.
int children_that_exit_now() {
  begin_to_end();
  for (const bool shares : {false, true}) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    const pid_t child = shares ? vfork() : fork();
#pragma GCC diagnostic pop
    if (child == 0) _exit(0);
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  allocate(4 * kMiB);
  return 0;
}

/// A thousand small blocks and one of 3 MiB stay live. Then 40 MiB from the pool, which keeps free
/// memory at a synchronization. Then 100 MiB.
void small_blocks_and_a_pool(bool trims) {
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, 0), "cudaDeviceGetDefaultMemPool");
  std::uint64_t everything = UINT64_MAX;
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &everything),
        "cudaMemPoolSetAttribute");
  for (int i = 0; i < 1000; ++i) allocate(3000);
  allocate(3 * kMiB);
  const cudaStream_t stream = make_stream();
  check(cudaFreeAsync(allocate(40 * kMiB, stream), stream), "cudaFreeAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  if (trims) check(cudaMemPoolTrimTo(pool, 0), "cudaMemPoolTrimTo");
  allocate(100 * kMiB);
}

int pool_that_keeps() {
  small_blocks_and_a_pool(false);
  return 0;
}

int pool_that_is_trimmed() {
  small_blocks_and_a_pool(true);
  return 0;
}

/// SIGKILL ends the process with two blocks live.
int killed() {
  const cudaStream_t stream = make_stream();
  allocate(6 * kMiB, stream);
  check(cudaFreeAsync(allocate(5 * kMiB, stream), stream), "cudaFreeAsync");
  allocate(4 * kMiB);
  return raise(SIGKILL);
}

/// Two blocks of different sizes on each of two GPUs. One block of the second GPU is freed.
int two_gpus() {
  for (int gpu = 0; gpu < 2; ++gpu) {
    check(cudaSetDevice(gpu), "cudaSetDevice");
    const cudaStream_t stream = make_stream();
    allocate((gpu + 1) * kMiB, stream);
    unsigned char* const other = allocate((gpu + 3) * kMiB, stream);
    if (gpu == 1) check(cudaFreeAsync(other, stream), "cudaFreeAsync");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  return 0;
}

int no_calls() { return 0; }

const std::map<std::string, int (*)()> kCases{
    {"fork_after_first_call", fork_after_first_call},
    {"fork_before_first_call", fork_before_first_call},
    {"exit_in_a_host_function", exit_in_a_host_function},
    {"free_in_a_late_destructor", free_in_a_late_destructor},
    {"free_in_an_early_destructor", free_in_an_early_destructor},
    {"foreign_pointers", foreign_pointers},
    {"last_error_stays", last_error_stays},
    {"too_much", too_much},
    {"needs_what_is_kept_free", needs_what_is_kept_free},
    {"reset_twice", reset_twice},
    {"beside_pytorch", beside_pytorch},
    {"streams_in_a_loop", streams_in_a_loop},
    {"streams_side_by_side", streams_side_by_side},
    {"beside_pitched_memory", beside_pitched_memory},
    {"threads_that_end", threads_that_end},
    {"opened_by_hand", opened_by_hand},
    {"own_pool", own_pool},
    {"counted_by_hand", counted_by_hand},
    {"pool_that_keeps", pool_that_keeps},
    {"pool_that_is_trimmed", pool_that_is_trimmed},
    {"ends_by_exit_now", ends_by_exit_now},
    {"ends_by_std_exit_now", ends_by_std_exit_now},
    {"ends_by_quick_exit", ends_by_quick_exit},
    {"ends_by_abort", ends_by_abort},
    {"ends_by_signal", ends_by_signal},
    {"ends_by_fault", ends_by_fault},
    {"handles_its_signal", handles_its_signal},
    {"children_that_exit_now", children_that_exit_now},
    {"killed", killed},
    {"two_gpus", two_gpus},
    {"no_calls", no_calls},
    {"data_in_threads", random_data_in_threads},
    {"everywhere", everywhere},
    {"reused_after_an_event", reused_after_an_event},
    {"event_recorded_by_the_driver", event_recorded_by_the_driver},
    {"captured", captured},
    {"free_in_a_capture", free_in_a_capture},
};

}  // namespace
}  // namespace program

int main(int argc, char** argv) {
  const std::string name = argc >= 2 ? argv[1] : "";
  const unsigned seed = argc == 3 ? static_cast<unsigned>(std::atoi(argv[2])) : 1U;
  if (name == "data") return program::random_data(seed);
  if (name == "mixed") return program::mixed(seed);
  const auto found = program::kCases.find(name);
  if (found != program::kCases.end()) return found->second();
  std::fprintf(stderr, "usage: interpose_program CASE [SEED]\n");
  return 2;
}
