// Random programs for what-if. Sizes, streams, events and threads are drawn from a seed. The seed
// also gives the order in which threads take turns, so a program makes the same calls in each run.

#include <array>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "test/interpose/cuda.hpp"

namespace program {
namespace {

class Mixed {
 public:
  explicit Mixed(unsigned seed) : random_(seed) {
    streams_.resize(1 + draw(6));
    for (cudaStream_t& stream : streams_) stream = new_stream();
    events_.resize(1 + draw(4));
    for (cudaEvent_t& event : events_)
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    largest_ = std::size_t{1} << (16 + draw(11));  // 64 KiB to 64 MiB
    share_of_malloc_ = draw(3);
    waits_for_device_ = draw(2) == 0;
    shuffles_threads_ = draw(2) == 0;
  }

  void run() {
    std::array<std::thread, kThreads> threads;
    for (unsigned i = 0; i < kThreads; ++i) threads[i] = std::thread{[this, i] { work(i); }};
    for (std::thread& thread : threads) thread.join();
    while (!blocks_.empty()) free_one();
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

 private:
  static constexpr unsigned kThreads = 3;
  static constexpr int kSteps = 400;
  static constexpr std::size_t kMostLive = 512 * kMiB;

  struct Block {
    unsigned char* address;
    std::size_t bytes;
    cudaStream_t owner;  ///< nullptr: from cudaMalloc
    bool for_all;
  };

  std::size_t draw(std::size_t below) { return random_() % below; }
  cudaStream_t any_stream() { return streams_[draw(streams_.size())]; }

  cudaStream_t new_stream() {
    const std::size_t kind = draw(8);
    if (kind == 0) return cudaStreamLegacy;
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, kind == 1 ? cudaStreamDefault : cudaStreamNonBlocking),
          "cudaStreamCreate");
    return stream;
  }

  void work(unsigned thread) {
    std::unique_lock lock{mutex_};
    while (steps_ < kSteps) {
      turn_changed_.wait(lock, [&] { return turn_ == thread || steps_ >= kSteps; });
      if (steps_ >= kSteps) break;
      step();
      ++steps_;
      if (shuffles_threads_ && draw(4) == 0) turn_ = static_cast<unsigned>(draw(kThreads));
      turn_changed_.notify_all();
    }
    turn_changed_.notify_all();
  }

  void step() {
    const std::size_t what = draw(40);
    if (what < 15) return allocate_one();
    if (what < 18) return use_one();
    if (what < 31) return free_one();
    if (what < 34) return record();
    if (what < 36) return wait();
    if (what == 36) return renew_stream();
    if (what == 37) return static_cast<void>(cudaEventQuery(any_event()));
    if (what == 38) return check(cudaStreamSynchronize(any_stream()), "cudaStreamSynchronize");
    if (waits_for_device_) check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  std::size_t draw_size() {
    std::size_t bytes = largest_;
    for (std::size_t halves = draw(9); halves > 0; --halves) bytes /= 2;
    return draw(2) == 0 ? bytes : 1 + draw(bytes);
  }

  void allocate_one() {
    const std::size_t bytes = draw_size();
    while (live_ + bytes > kMostLive) free_one();
    const cudaStream_t stream = any_stream();
    const bool for_all = draw(8) < share_of_malloc_;
    const Block block{for_all ? allocate(bytes) : allocate(bytes, stream), bytes, stream, for_all};
    check(cudaMemsetAsync(block.address, 1, bytes, stream), "cudaMemsetAsync");
    blocks_.push_back(block);
    live_ += bytes;
  }

  void use_one() {
    if (blocks_.empty()) return;
    const Block& block = blocks_[draw(blocks_.size())];
    check(cudaMemsetAsync(block.address, 2, block.bytes, block.owner), "cudaMemsetAsync");
  }

  void order(cudaStream_t before, cudaStream_t after) {
    const cudaEvent_t event = any_event();
    check(cudaEventRecord(event, before), "cudaEventRecord");
    check(cudaStreamWaitEvent(after, event, 0), "cudaStreamWaitEvent");
  }

  void free_one() {
    if (blocks_.empty()) return;
    const std::size_t place = draw(blocks_.size());
    const Block block = blocks_[place];
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(place));
    live_ -= block.bytes;
    if (block.for_all) return check(cudaFree(block.address), "cudaFree");
    if (draw(12) == 0) return check(cudaFree(block.address), "cudaFree");
    const cudaStream_t other = draw(3) == 0 ? any_stream() : block.owner;
    if (other != block.owner) order(block.owner, other);
    check(cudaFreeAsync(block.address, other), "cudaFreeAsync");
  }

  cudaEvent_t any_event() { return events_[draw(events_.size())]; }
  void record() { check(cudaEventRecord(any_event(), any_stream()), "cudaEventRecord"); }
  void wait() { check(cudaStreamWaitEvent(any_stream(), any_event(), 0), "cudaStreamWaitEvent"); }

  void renew_stream() {
    cudaStream_t& stream = streams_[draw(streams_.size())];
    for (const Block& block : blocks_) {
      if (block.owner == stream) return;
    }
    if (stream != cudaStreamLegacy) check(cudaStreamDestroy(stream), "cudaStreamDestroy");
    stream = new_stream();
  }

  std::mt19937_64 random_;
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;
  std::size_t largest_ = 0, share_of_malloc_ = 0, live_ = 0;
  bool waits_for_device_ = false, shuffles_threads_ = false;
  std::vector<Block> blocks_;

  std::mutex mutex_;  // guards all members while threads run
  std::condition_variable turn_changed_;
  unsigned turn_ = 0;
  int steps_ = 0;
};

}  // namespace

int mixed(unsigned seed) {
  Mixed{seed}.run();
  return 0;
}

}  // namespace program
