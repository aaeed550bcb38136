#include <array>
#include <atomic>
#include <bit>
#include <mutex>
#include <new>

#include "allocator/subjects/peer.hpp"

// Lower bounds for the cost of two designs: no streams, no splitting, no look-up by address.

namespace millrace::bench {
namespace {

/// A stack of free blocks per power of two.
class Stacks {
 public:
  void* take(std::size_t bytes, Driver& driver) {
    std::vector<void*>& stack = of(bytes);
    if (stack.empty()) [[unlikely]] {
      void* const fresh = driver.allocate(std::bit_ceil(bytes));
      if (fresh == nullptr) throw std::bad_alloc{};
      return fresh;
    }
    void* const address = stack.back();
    stack.pop_back();
    return address;
  }
  void put(void* address, std::size_t bytes) { of(bytes).push_back(address); }

 private:
  std::vector<void*>& of(std::size_t bytes) {
    return stacks_[static_cast<std::size_t>(std::bit_width(bytes - 1))];
  }

  std::array<std::vector<void*>, 64> stacks_;
};

class MutexFloor final : public Peer {
 public:
  using Peer::Peer;

  void* allocate(std::size_t bytes, unsigned) override {
    const std::lock_guard lock{mutex_};
    return stacks_.take(bytes, driver());
  }
  void free(void* address, std::size_t bytes, unsigned) override {
    const std::lock_guard lock{mutex_};
    stacks_.put(address, bytes);
  }

 private:
  std::mutex mutex_;
  Stacks stacks_;
};

class ThreadLocalFloor final : public Peer {
 public:
  using Peer::Peer;

  void* allocate(std::size_t bytes, unsigned) override { return mine().take(bytes, driver()); }
  void free(void* address, std::size_t bytes, unsigned) override { mine().put(address, bytes); }

 private:
  Stacks& mine() {
    thread_local std::uint64_t owner = 0;  // not an address, which may be reused
    thread_local Stacks* stacks = nullptr;
    if (owner != number_) [[unlikely]] {
      const std::lock_guard lock{mutex_};
      stacks = all_.emplace_back(std::make_unique<Stacks>()).get();
      owner = number_;
    }
    return *stacks;
  }

  static inline std::atomic<std::uint64_t> made = 0;

  std::uint64_t number_ = ++made;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Stacks>> all_;
};

}  // namespace

std::unique_ptr<Subject> make_mutex_floor(Machine& machine, unsigned streams) {
  return std::make_unique<MutexFloor>(machine, streams);
}

std::unique_ptr<Subject> make_thread_local_floor(Machine& machine, unsigned streams) {
  return std::make_unique<ThreadLocalFloor>(machine, streams);
}

}  // namespace millrace::bench
