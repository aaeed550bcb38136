#include <map>
#include <memory>
#include <random>
#include <thread>

#include "test/virtual_cuda/laws/gpu.hpp"

using namespace millrace::test;

namespace {

constexpr std::size_t kProgramBytes = 96;

/**
 * A random program of copies, fills and host functions on several streams. Events order every two
 * accesses to the same block of which at least one writes. The host computes the same work in the
 * order of the calls.
 */
class OrderedProgram {
 public:
  OrderedProgram(unsigned seed, std::size_t streams, std::size_t blocks) : random_{seed} {
    for (std::size_t i = 0; i < streams; ++i)
      streams_.push_back(
          std::make_unique<Stream>(i % 3 == 0 ? cudaStreamDefault : cudaStreamNonBlocking));
    for (std::size_t i = 0; i < blocks; ++i) {
      auto& block = blocks_.emplace_back(std::make_unique<DeviceBlock>(kProgramBytes));
      CUDA_OK(cudaMemset(block->get(), 0, kProgramBytes));
      expected_.push_back(all(kProgramBytes, 0));
    }
    CUDA_OK(cudaDeviceSynchronize());
    accesses_.resize(blocks);
  }

  void step() {
    const std::size_t stream = draw(streams_.size());
    const std::size_t to = draw(blocks_.size());
    switch (draw(4)) {
      case 0:
        fill(stream, to);
        break;
      case 1:
        poll();
        break;
      default:
        copy(stream, to, (to + 1 + draw(blocks_.size() - 1)) % blocks_.size());
    }
  }

  void check() {
    CUDA_OK(cudaDeviceSynchronize());
    for (std::size_t i = 0; i < blocks_.size(); ++i) CHECK(read(*blocks_[i]) == expected_[i]);
  }

 private:
  struct Access {
    std::size_t stream;
    bool writes;
    std::shared_ptr<Event> event;
  };

  std::size_t draw(std::size_t bound) { return random_() % bound; }

  void order(std::size_t stream, std::size_t block, bool writes) {
    for (const Access& earlier : accesses_[block])
      if (earlier.stream != stream && (writes || earlier.writes))
        CUDA_OK(cudaStreamWaitEvent(*streams_[stream], *earlier.event, 0));
  }

  void note(std::size_t stream, std::size_t block, bool writes,
            const std::shared_ptr<Event>& event) {
    if (writes) accesses_[block].clear();
    accesses_[block].push_back({stream, writes, event});
  }

  std::shared_ptr<Event> record(std::size_t stream) {
    auto event = std::make_shared<Event>();
    CUDA_OK(cudaEventRecord(*event, *streams_[stream]));
    last_ = event;
    return event;
  }

  void fill(std::size_t stream, std::size_t to) {
    const auto value = static_cast<unsigned char>(draw(250));
    const std::size_t bytes = 1 + draw(kProgramBytes);
    order(stream, to, true);
    CUDA_OK(cudaMemsetAsync(blocks_[to]->get(), value, bytes, *streams_[stream]));
    std::fill_n(expected_[to].begin(), bytes, value);
    note(stream, to, true, record(stream));
  }

  void copy(std::size_t stream, std::size_t to, std::size_t from) {
    const std::size_t bytes = 1 + draw(kProgramBytes);
    order(stream, from, false);
    order(stream, to, true);
    CUDA_OK(cudaMemcpyAsync(blocks_[to]->get(), blocks_[from]->get(), bytes,
                            cudaMemcpyDeviceToDevice, *streams_[stream]));
    std::copy_n(expected_[from].begin(), bytes, expected_[to].begin());
    const auto event = record(stream);
    note(stream, from, false, event);
    note(stream, to, true, event);
  }

  void poll() {
    if (last_ != nullptr) static_cast<void>(cudaEventQuery(*last_));
    static_cast<void>(cudaGetLastError());
  }

  std::mt19937 random_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<DeviceBlock>> blocks_;
  std::vector<std::vector<unsigned char>> expected_;
  std::vector<std::vector<Access>> accesses_;
  std::shared_ptr<Event> last_;
};

}  // namespace

TEST_CASE("a program with ordered accesses gives the results of its calls in sequence") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    OrderedProgram program{seed, 1 + seed % 5, 2 + seed % 4};
    for (int i = 0; i < 60; ++i) program.step();
    CAPTURE(seed);
    program.check();
  }
}

TEST_CASE("threads with their own streams do not affect each other") {
  constexpr int kThreads = 4;
  std::vector<int> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number)
    threads.emplace_back([number, &wrong] {
      cudaStream_t stream = nullptr;
      void* block = nullptr;
      void* pinned = nullptr;
      wrong[static_cast<std::size_t>(number)] += cudaStreamCreate(&stream) != cudaSuccess;
      wrong[static_cast<std::size_t>(number)] += cudaMalloc(&block, 1024) != cudaSuccess;
      wrong[static_cast<std::size_t>(number)] += cudaMallocHost(&pinned, 1024) != cudaSuccess;
      for (int i = 0; i < 200; ++i) {
        const int value = (number * 50 + i) % 251;
        cudaMemsetAsync(block, value, 1024, stream);
        cudaMemcpyAsync(pinned, block, 1024, cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
        const auto* const seen = static_cast<unsigned char*>(pinned);
        wrong[static_cast<std::size_t>(number)] += seen[0] != value || seen[1023] != value;
      }
      cudaStreamDestroy(stream);
      cudaFree(block);
      cudaFreeHost(pinned);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(kThreads, 0));
}
