#include "capture/cuda/bits.cuh"
#include "capture/cuda/kernels.hpp"

namespace millrace::capture::cuda {
namespace {

// Enough blocks to keep a link busy. Training needs the other multiprocessors.
constexpr unsigned kDrainBlocks = 8;

struct alignas(16) Word16 {
  std::uint64_t halves[2];
};

// Headers and everything after them are multiples of 16 bytes.
__global__ void drain_slot_kernel(Word16* to, const Word16* from, std::size_t most) {
  std::size_t bytes = reinterpret_cast<const CaptureHeader*>(from)->bytes;
  if (bytes < sizeof(CaptureHeader)) bytes = sizeof(CaptureHeader);
  const std::size_t words = (bytes < most ? bytes : most) / sizeof(Word16);
  for (std::size_t i = this_thread(); i < words; i += thread_count()) to[i] = from[i];
}

}  // namespace

void drain_slot(Queue queue, std::span<std::byte> to, std::span<const std::byte> from) {
  launch({"drain rows", kDrainBlocks, kThreads}, queue, drain_slot_kernel,
         reinterpret_cast<Word16*>(to.data()), reinterpret_cast<const Word16*>(from.data()),
         to.size() < from.size() ? to.size() : from.size());
}

}  // namespace millrace::capture::cuda
