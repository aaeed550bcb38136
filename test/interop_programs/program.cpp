// A CUDA program that uses Millrace through the C interface, with one case for each name. It ends
// with 0 if its results are right. CTest runs it on the virtual CUDA runtime under each schedule.
//
//   interop_program CASE [SEED]

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "millrace.h"
#include "test/support/forked.hpp"

namespace {

using forked::exit_code_of_child;

constexpr std::size_t kMiB = std::size_t{1} << 20;

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "%s; %s\n", what, millrace_last_error());
  std::_Exit(1);
}

void require(bool holds, const char* what) {
  if (!holds) give_up(what);
}

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) give_up((std::string{call} + ": " + cudaGetErrorName(error)).c_str());
}

void check(millrace_status status, const char* call) { require(status == MILLRACE_OK, call); }

void* allocate(std::size_t bytes, cudaStream_t stream) {
  void* const address = millrace_malloc(static_cast<ssize_t>(bytes), 0, stream);
  require(address != nullptr, "millrace_malloc");
  return address;
}

void free_on(void* address, cudaStream_t stream) {
  static thread_local millrace_status before = MILLRACE_OK;
  millrace_free(address, 0, 0, stream);
  require(millrace_last_status() == before, "millrace_free");
}

millrace_statistics statistics() {
  millrace_statistics found{};
  found.struct_bytes = sizeof found;
  check(millrace_get_statistics(0, &found), "millrace_get_statistics");
  return found;
}

cudaStream_t create_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return stream;
}

// Random programs on real data

struct Block {
  unsigned char* address;
  std::size_t bytes;
  unsigned char value;
  cudaStream_t owner;
};

/** The expected result of a copy to the host. */
struct Expected {
  const unsigned char* found;
  std::size_t bytes;
  unsigned char value;
};

/**
 * Fills blocks on their streams and reads them on other streams. Orders the streams by events that
 * Millrace does not see. Compares the data later: if memory was reused too early, it has the value
 * of another block.
 */
class RandomProgram {
 public:
  RandomProgram(unsigned seed, bool forgets_records)
      : random_(seed), forgets_records_(forgets_records) {
    for (cudaStream_t& stream : streams_) stream = create_stream();
    check(cudaHostAlloc(reinterpret_cast<void**>(&host_), kHostBytes, 0), "cudaHostAlloc");
  }

  /** @return whether all data was right */
  bool run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    while (!blocks_.empty()) free_one();
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return compare() && right_;
  }

 private:
  static constexpr std::size_t kHostBytes = 64 * kMiB;

  unsigned draw(std::size_t below) { return static_cast<unsigned>(random_() % below); }
  cudaStream_t any_stream() { return streams_[draw(streams_.size())]; }

  void step() {
    const unsigned what = draw(20);
    if (what < 8 || blocks_.empty()) return fill();
    if (what < 12) return read(blocks_[draw(blocks_.size())]);
    if (what < 18) return free_one();
    if (what == 18) return renew_stream();
    check(cudaStreamSynchronize(any_stream()), "cudaStreamSynchronize");
  }

  void fill() {
    const std::size_t bytes = draw(2) == 0 ? 1 + draw(5000) : 4096 * (1 + draw(512));
    const cudaStream_t stream = any_stream();
    Block block{static_cast<unsigned char*>(allocate(bytes, stream)), bytes,
                static_cast<unsigned char>(1 + draw(255)), stream};
    check(cudaMemsetAsync(block.address, block.value, bytes, stream), "cudaMemsetAsync");
    blocks_.push_back(block);
  }

  /** Makes `after` wait for all that is enqueued on `before`. */
  static void order(cudaStream_t before, cudaStream_t after) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    check(cudaEventRecord(event, before), "cudaEventRecord");
    check(cudaStreamWaitEvent(after, event, 0), "cudaStreamWaitEvent");
    check(cudaEventDestroy(event), "cudaEventDestroy");
  }

  void read(const Block& block) {
    if (used_ + block.bytes > kHostBytes) {
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      right_ = compare() && right_;
      used_ = 0;
    }
    const cudaStream_t reader = any_stream();
    order(block.owner, reader);
    if (reader != block.owner && !forgets_records_) {
      check(millrace_record_stream(block.address, 0, reader), "millrace_record_stream");
      pinned_down_.emplace(reader, block.address);
    }
    check(
        cudaMemcpyAsync(host_ + used_, block.address, block.bytes, cudaMemcpyDeviceToHost, reader),
        "cudaMemcpyAsync");
    expected_.push_back({host_ + used_, block.bytes, block.value});
    used_ += block.bytes;
  }

  void free_one() {
    const unsigned place = draw(blocks_.size());
    const Block block = blocks_[place];
    blocks_.erase(blocks_.begin() + place);
    std::erase_if(pinned_down_, [&](const auto& use) { return use.second == block.address; });
    const cudaStream_t other = any_stream();
    switch (draw(3)) {
      case 0:
        return free_on(block.address, block.owner);
      case 1:
        order(block.owner, other);
        return free_on(block.address, other);
      default:
        check(millrace_free_owned(block.address, 0), "millrace_free_owned");
    }
  }

  /** Destroys a stream that owns no block and has no recorded use. A new one may get its handle. */
  void renew_stream() {
    cudaStream_t& stream = streams_[draw(streams_.size())];
    if (pinned_down_.count(stream) != 0) return;
    for (const Block& block : blocks_) {
      if (block.owner == stream) return;
    }
    check(cudaStreamDestroy(stream), "cudaStreamDestroy");
    stream = create_stream();
  }

  bool compare() {
    bool right = true;
    for (const Expected& each : expected_) {
      right = right && std::all_of(each.found, each.found + each.bytes,
                                   [&](unsigned char byte) { return byte == each.value; });
    }
    expected_.clear();
    return right;
  }

  std::minstd_rand random_;
  const bool forgets_records_;
  bool right_ = true;
  std::vector<cudaStream_t> streams_{4};
  std::vector<Block> blocks_;
  std::multimap<cudaStream_t, unsigned char*> pinned_down_;  // streams that must live until a free
  std::vector<Expected> expected_;
  unsigned char* host_ = nullptr;
  std::size_t used_ = 0;
};

unsigned first_seed = 1;

int data() {
  for (unsigned seed = first_seed; seed < first_seed + 20; ++seed) {
    if (!RandomProgram{seed, false}.run(300)) {
      std::fprintf(stderr, "memory was reused too early with seed %u\n", seed);
      return 1;
    }
  }
  require(statistics().live_blocks == 0, "blocks are left over");
  require(statistics().served_ordered > 0, "no stream got another's memory");
  return 0;
}

/** The same program without recorded uses. The error must show. */
int data_without_records() {
  for (unsigned seed = first_seed; seed < first_seed + 20; ++seed) {
    if (!RandomProgram{seed, true}.run(300)) return 0;
  }
  std::fprintf(stderr, "nothing was reused too early, though no use was recorded\n");
  return 1;
}

// Start, fork and end of a process

void* of_process = nullptr;

/** Constructed before main and destroyed after it. */
struct Early {
  Early() {
    if (std::getenv("INTEROP_EARLY") == nullptr) return;
    of_process = allocate(kMiB, nullptr);
  }
  ~Early() {
    if (of_process == nullptr) return;
    free_on(of_process, nullptr);
    check(millrace_free_owned(last_, 0), "a free at static destruction");
    millrace_free(&last_, 0, 0, nullptr);  // refused
    if (millrace_last_status() != MILLRACE_INVALID_ARGUMENT) give_up("a foreign pointer was freed");
  }
  void* last_ = nullptr;
} early;

int memory_before_and_after_main() {
  require(of_process != nullptr, "INTEROP_EARLY is not set");
  early.last_ = allocate(kMiB, create_stream());
  return 0;
}

int try_in_child() {
  int here = 0;
  if (millrace_malloc(64, 0, nullptr) != nullptr) return 1;
  if (millrace_last_status() != MILLRACE_DEVICE_LOST) return 2;
  if (millrace_free_owned(of_process, 0) != MILLRACE_OK) return 3;
  if (millrace_free_owned(&here, 0) != MILLRACE_OK) return 4;
  millrace_free(of_process, 64, 0, nullptr);
  if (millrace_trim(0, 0, nullptr) != MILLRACE_DEVICE_LOST) return 5;
  if (millrace_record_stream(of_process, 0, nullptr) != MILLRACE_DEVICE_LOST) return 6;
  of_process = nullptr;
  return 0;
}

int fork_after_first_call() {
  of_process = allocate(64, nullptr);
  if (const int code = exit_code_of_child(try_in_child); code != 0) return code;
  free_on(of_process, nullptr);
  of_process = nullptr;
  return 0;
}

/** Threads that allocate all the time hold locks at the fork. */
int fork_under_load() {
  of_process = allocate(64, nullptr);
  std::vector<std::thread> threads;
  bool done = false;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&done] {
      const cudaStream_t stream = create_stream();
      while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
        void* const large = allocate(3 * kMiB, stream);
        free_on(allocate(100, stream), stream);
        free_on(large, stream);
      }
    });
  }
  int code = 0;
  for (int i = 0; i < 20 && code == 0; ++i) code = exit_code_of_child(try_in_child);
  __atomic_store_n(&done, true, __ATOMIC_RELAXED);
  for (std::thread& thread : threads) thread.join();
  return code;
}

int fork_before_first_call() {
  const auto body = [] {
    free_on(allocate(64, nullptr), nullptr);
    return 0;
  };
  if (const int code = exit_code_of_child(body); code != 0) return code;
  return body();
}

int exit_in_a_host_function() {
  of_process = allocate(kMiB, nullptr);
  const cudaStream_t stream = create_stream();
  check(cudaLaunchHostFunc(
            stream, [](void*) { std::exit(0); }, nullptr),
        "cudaLaunchHostFunc");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return 1;  // the call above does not return
}

int free_in_a_host_function() {
  const cudaStream_t stream = create_stream();
  void* const block = allocate(kMiB, stream);
  check(cudaLaunchHostFunc(
            stream,
            [](void* address) { check(millrace_free_owned(address, 0), "millrace_free_owned"); },
            block),
        "cudaLaunchHostFunc");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  require(statistics().live_blocks == 0, "the block is live");
  return 0;
}

/** Each thread has its own stream, which ends with the thread. */
int threads_that_end() {
  for (int i = 0; i < 200; ++i) {
    std::thread{[] {
      void* const own = allocate(2 * kMiB, cudaStreamPerThread);
      void* const other = allocate(kMiB, cudaStreamPerThread);
      check(cudaMemsetAsync(own, 1, 2 * kMiB, cudaStreamPerThread), "cudaMemsetAsync");
      free_on(own, cudaStreamPerThread);
      free_on(other, cudaStreamPerThread);
      check(cudaStreamSynchronize(cudaStreamPerThread), "cudaStreamSynchronize");
    }}.join();
  }
  require(statistics().reserved <= 256 * kMiB, "memory of threads that ended is lost");
  return 0;
}

int streams_in_a_loop() {
  for (int i = 0; i < 500; ++i) {
    const cudaStream_t stream = create_stream();
    void* const block = allocate(32 * kMiB, stream);
    check(cudaMemsetAsync(block, 1, kMiB, stream), "cudaMemsetAsync");
    free_on(block, stream);
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  }
  // A query may return "not ready" a few times. Each time may cost one more block.
  require(statistics().reserved <= 8 * 32 * kMiB, "memory of streams that are gone is lost");
  return 0;
}

int foreign_pointers() {
  const cudaStream_t stream = create_stream();
  void* foreign = nullptr;
  check(cudaMalloc(&foreign, kMiB), "cudaMalloc");
  void* const own = allocate(kMiB, stream);
  for (void* const address :
       {foreign, static_cast<void*>(&foreign), static_cast<void*>(static_cast<char*>(own) + 512)}) {
    millrace_free(address, 0, 0, stream);
    require(millrace_last_status() == MILLRACE_INVALID_ARGUMENT, "a foreign pointer was freed");
    require(millrace_free_owned(address, 0) == MILLRACE_INVALID_ARGUMENT,
            "a foreign pointer was freed");
  }
  check(cudaFree(foreign), "cudaFree");
  return 0;
}

/** An allocation on a captured stream is refused. The capture continues. */
int capture() {
  const cudaStream_t stream = create_stream();
  free_on(allocate(kMiB, stream), stream);
  void* const block = allocate(kMiB, stream);
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  require(millrace_malloc(kMiB, 0, stream) == nullptr, "a captured stream got memory");
  require(millrace_last_status() == MILLRACE_CAPTURE, "the refusal has another reason");
  check(cudaMemsetAsync(block, 1, kMiB, stream), "cudaMemsetAsync");
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  require(graph != nullptr, "the capture is broken");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  check(millrace_free_owned(block, 0), "millrace_free_owned");
  return 0;
}

/** The default stream gets memory even while a stream that waits for it is captured. */
int default_stream_beside_a_capture() {
  const cudaStream_t none = nullptr;
  cudaStream_t captured = nullptr;
  check(cudaStreamCreate(&captured), "cudaStreamCreate");  // blocking
  free_on(allocate(kMiB, none), none);
  void* const result = allocate(kMiB, none);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  check(cudaMemsetAsync(result, 1, kMiB, captured), "cudaMemsetAsync");
  for (int i = 0; i < 100; ++i) free_on(allocate((1 + i % 7) * kMiB, none), none);
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(captured, &graph), "cudaStreamEndCapture");
  require(graph != nullptr, "the capture is broken");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  free_on(result, none);
  return 0;
}

const std::map<std::string, int (*)()> cases{
    {"data", data},
    {"data_without_records", data_without_records},
    {"memory_before_and_after_main", memory_before_and_after_main},
    {"fork_after_first_call", fork_after_first_call},
    {"fork_under_load", fork_under_load},
    {"fork_before_first_call", fork_before_first_call},
    {"exit_in_a_host_function", exit_in_a_host_function},
    {"free_in_a_host_function", free_in_a_host_function},
    {"threads_that_end", threads_that_end},
    {"streams_in_a_loop", streams_in_a_loop},
    {"foreign_pointers", foreign_pointers},
    {"capture", capture},
    {"default_stream_beside_a_capture", default_stream_beside_a_capture}};

}  // namespace

int main(int argc, char** argv) {
  const auto found = argc > 1 ? cases.find(argv[1]) : cases.end();
  if (found == cases.end()) {
    std::fprintf(stderr, "interop_program CASE [SEED]; the cases are\n");
    for (const auto& [name, body] : cases) std::fprintf(stderr, "  %s\n", name.c_str());
    return 2;
  }
  if (argc > 2) first_seed = static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10));
  return found->second();
}
