#include "test/stress/soak.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "millrace/config.hpp"
#include "millrace/device/cuda_device.hpp"
#include "millrace/device/stream.hpp"
#include "millrace/device/thread_executor.hpp"
#include "test/support/cuda/content_kernels.hpp"
#include "test/support/threaded_device.hpp"

namespace millrace::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSharedStreams = 3;
constexpr std::size_t kStride = 1024;  // bytes between the words that are written
constexpr std::size_t kMostHeld = 24;  // maximum number of blocks of one thread

std::unique_ptr<Device> make_device(const Soak& soak) {
  if (!soak.gpu) return std::make_unique<ThreadedDevice>(soak.memory_bytes);
  return CudaDevice::create(*soak.gpu);
}

std::unique_ptr<ContentKernels> make_kernels([[maybe_unused]] const Soak& soak) {
#if MILLRACE_HAS_CUDA
  if (soak.gpu) return make_content_kernels(*soak.gpu);
#endif
  return nullptr;
}

/// A device, its allocator and the streams that all threads use.
struct Card {
  Card(const Soak& soak, std::size_t place)
      : index(place),
        made(make_device(soak)),
        kernels(make_kernels(soak)),
        source(device),
        tested(ordered, source, soak.policy, {.limit = soak.gpu ? soak.memory_bytes : 0}),
        wrapped(soak.wrap ? soak.wrap(tested) : nullptr),
        allocator(wrapped ? *wrapped : tested) {
    for (std::size_t i = 0; i < kSharedStreams; ++i) streams.emplace_back(ordered);
  }

  /// Returns the bytes that the device has not got back, or 0 if it does not count them.
  [[nodiscard]] std::size_t left() const {
    const auto* const threaded = dynamic_cast<const ThreadedDevice*>(made.get());
    return threaded == nullptr ? 0 : threaded->allocated();
  }

  const std::size_t index;
  const std::unique_ptr<Device> made;
  const std::unique_ptr<ContentKernels> kernels;  ///< only with a GPU
  Device& device{*made};
  OrderedDevice ordered{device};
  DeviceSource source;
  std::vector<Stream> streams;
  CachingAllocator tested;
  std::unique_ptr<Allocator> wrapped;
  Allocator& allocator;
};

struct Block {
  Card* card;
  void* address;
  std::size_t bytes;
  std::uint64_t cookie;
  std::vector<Event> uses;  // all uses since the allocation
};

struct Shared {
  std::vector<std::unique_ptr<Card>> cards;
  Clock::time_point end;
  std::mutex mutex;  // protects the members below
  std::array<std::optional<Block>, 32> passed_on;
  std::string failure;
  std::atomic<std::uint64_t> steps = 0, checked = 0, corrupted = 0, out_of_memory = 0,
                             generations = 0, cookies = 0;

  void fail(const std::string& what) {
    const std::lock_guard lock{mutex};
    if (failure.empty()) failure = what;
  }
};

template <typename Visit>
void each_word(std::span<std::byte> data, Visit visit) {
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= data.size(); at += kStride) {
    visit(data.data() + at);
  }
}

/// The life of one thread, which has its own stream on each card.
class Generation {
 public:
  Generation(Shared& shared, std::uint64_t seed) : shared_(shared), random_(seed) {
    for (const auto& card : shared.cards) own_.emplace_back(card->ordered);
  }

  void run(std::size_t steps) {
    for (std::size_t i = 0; i < steps && Clock::now() < shared_.end; ++i) {
      step();
      ++shared_.steps;
    }
    while (!held_.empty()) {
      if (chance(50)) {
        pass_on();
      } else {
        free();
      }
    }
  }

 private:
  std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>{0, limit - 1}(random_);
  }
  bool chance(std::size_t percent) { return below(100) < percent; }

  void step() {
    const std::size_t kind = below(100);
    if (held_.empty() || kind < 30) return allocate();
    if (kind < 60) return use(held_[below(held_.size())]);
    if (kind < 80) return free();
    if (kind < 92) return pass_on();
    if (kind < 99) return look();
    return renew();
  }

  Stream& any_stream(Card& card) {
    const std::size_t index = below(kSharedStreams + 1);
    if (index < kSharedStreams) return card.streams[index];
    return own_[card.index];
  }

  std::size_t any_size() {
    const std::size_t most = chance(80) ? 20'000 : chance(80) ? 600'000 : 9'000'000;
    return 8 + below(most);
  }

  void allocate() {
    if (held_.size() >= kMostHeld) return free();
    Card& card = *shared_.cards[below(shared_.cards.size())];
    const Stream& owner = any_stream(card);
    const Stream& user = chance(80) ? owner : any_stream(card);
    Block block{&card, nullptr, any_size(), 0, {}};
    try {
      block.address = card.allocator.allocate(block.bytes, owner, user);
    } catch (const out_of_memory&) {
      ++shared_.out_of_memory;
      while (held_.size() > kMostHeld / 2) free();
      return;
    }
    write(block, user);
    held_.push_back(std::move(block));
  }

  void use(Block& block) {
    const Stream& stream = any_stream(*block.card);
    const bool early = chance(50);
    if (early) block.card->allocator.record_use(block.address, stream);
    for (const Event& event : block.uses) block.card->ordered.wait(stream, event);
    if (chance(70)) {
      read(block, stream);
    } else {
      write(block, stream);
    }
    if (!early) block.card->allocator.record_use(block.address, stream);
  }

  void write(Block& block, const Stream& stream) {
    block.cookie = ++shared_.cookies * 0x9E3779B97F4A7C15U;
    launch(block, stream, Access::write, [cookie = block.cookie](std::span<std::byte> data) {
      each_word(data, [&](std::byte* at) { std::memcpy(at, &cookie, sizeof cookie); });
    });
  }

  void read(Block& block, const Stream& stream) {
    launch(block, stream, Access::read,
           [cookie = block.cookie, &shared = shared_](std::span<std::byte> data) {
             bool same = true;
             each_word(data, [&](const std::byte* at) {
               same = same && std::memcmp(at, &cookie, sizeof cookie) == 0;
             });
             ++shared.checked;
             if (!same) ++shared.corrupted;
           });
  }

  template <typename Kernel>
  void launch(Block& block, const Stream& stream, Access access, Kernel kernel) {
    Operation operation;
    operation.views = {{block.address, block.bytes, access}};
    operation.host = [kernel](const KernelContext& memory) { kernel(memory.bytes(0)); };
    if (block.card->kernels) operation.cuda = cuda_kernel(block, access);
    block.card->device.launch(std::move(operation), stream.handle());
    block.card->ordered.record(block.uses.emplace_back(), stream);
  }

  /// Returns the same work as a GPU kernel.
  std::function<void(void*)> cuda_kernel(const Block& block, Access access) {
    const SampledWords words{static_cast<std::byte*>(block.address),
                             block.bytes / sizeof(std::uint64_t), kStride / sizeof(std::uint64_t)};
    return [words, access, cookie = block.cookie, nanoseconds = below(20'000),
            &kernels = *block.card->kernels](void* stream) {
      if (access == Access::write) {
        kernels.fill(stream, words, cookie, nanoseconds);
      } else {
        kernels.check(stream, words, cookie, nanoseconds);
      }
    };
  }

  void free() {
    const std::size_t place = below(held_.size());
    std::swap(held_[place], held_.back());
    Block block = std::move(held_.back());
    held_.pop_back();
    free(block);
  }

  void free(Block& block) {
    Card& card = *block.card;
    if (chance(20)) use(block);
    const Stream& stream = use_everything(block);
    switch (below(4)) {
      case 0:
        return card.allocator.deallocate(block.address);
      case 1:
        return card.allocator.deallocate(block.address, stream);
      case 2:
        return card.allocator.deallocate(block.address, card.ordered.mark(stream));
      default:
        card.allocator.record_use(block.address, stream);
        card.device.callback(stream.handle(), [&allocator = card.allocator, at = block.address] {
          allocator.deallocate(at);
        });
    }
  }

  /// Orders a stream after every use of the block and returns it.
  const Stream& use_everything(const Block& block) {
    const Stream& stream = any_stream(*block.card);
    for (const Event& event : block.uses) block.card->ordered.wait(stream, event);
    return stream;
  }

  /// Puts a block into a shared place and frees the block that was there. In this way threads free
  /// each other's blocks.
  void pass_on() {
    std::optional<Block> block = std::move(held_.back());
    held_.pop_back();
    {
      const std::lock_guard lock{shared_.mutex};
      std::swap(block, shared_.passed_on[below(shared_.passed_on.size())]);
    }
    if (block) free(*block);
  }

  void look() {
    Card& card = *shared_.cards[below(shared_.cards.size())];
    const Stream& stream = any_stream(card);
    switch (below(6)) {
      case 0:
        card.allocator.trim(std::size_t{8} << 20);
        break;
      case 1:
        card.ordered.poll();
        break;
      case 2:
        card.ordered.synchronize(stream);
        break;
      case 3:
        static_cast<void>(card.allocator.usable(stream));
        break;
      case 4:
        static_cast<void>(card.allocator.statistics());
        break;
      default:
        static_cast<void>(card.ordered.mark(stream));
    }
  }

  void renew() {
    const std::size_t place = below(own_.size());
    own_[place] = Stream{shared_.cards[place]->ordered};
  }

  Shared& shared_;
  std::mt19937_64 random_;
  std::vector<Stream> own_;  // one for each card
  std::vector<Block> held_;
};

void live(Shared& shared, std::uint64_t seed) {
  ThreadExecutor executor;
  std::mt19937_64 random{seed};
  while (Clock::now() < shared.end) {
    const std::uint64_t life = random();
    ++shared.generations;
    try {
      executor.spawn("generation", [&] { Generation{shared, life}.run(20 + life % 2000); })->join();
    } catch (const std::exception& error) {
      return shared.fail(error.what());
    }
  }
}

void clear(Shared& shared, SoakResult& result) {
  for (auto& place : shared.passed_on) {
    if (place) place->card->allocator.deallocate(place->address);
  }
  for (const auto& card : shared.cards) {
    card->ordered.synchronize();  // callbacks free blocks
    card->ordered.synchronize();
    card->allocator.trim();
    card->tested.check_invariants();
    result.left_bytes += card->allocator.statistics().bytes.reserved.current + card->left();
    if (card->kernels) {
      const ContentKernels::Findings found = card->kernels->findings();
      shared.checked += found.checked;
      shared.corrupted += found.corrupted;
    }
  }
}

}  // namespace

SoakResult soak(const Soak& options) {
  Shared shared;
  for (unsigned i = 0; i < options.devices; ++i) {
    shared.cards.push_back(std::make_unique<Card>(options, i));
  }
  shared.end = Clock::now() + options.time;
  {
    ThreadExecutor executor;
    std::vector<std::unique_ptr<Executor::Task>> threads;
    for (unsigned i = 0; i < options.threads; ++i) {
      threads.push_back(
          executor.spawn("thread", [&, i] { live(shared, options.seed * 1000 + i); }));
    }
    for (const auto& thread : threads) thread->join();
  }
  SoakResult result;
  try {
    clear(shared, result);
  } catch (const std::exception& error) {
    shared.fail(error.what());
  }
  result.steps = shared.steps;
  result.checked = shared.checked;
  result.corrupted = shared.corrupted;
  result.out_of_memory = shared.out_of_memory;
  result.generations = shared.generations;
  result.failure = shared.failure;
  return result;
}

}  // namespace millrace::test
