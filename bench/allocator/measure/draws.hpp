#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace millrace::bench {

/// A size, and a random number that selects the live block to replace.
struct Draw {
  std::size_t bytes = 0;
  std::uint32_t choice = 0;

  [[nodiscard]] std::size_t victim(std::size_t live) const noexcept {
    return static_cast<std::size_t>((std::uint64_t{choice} * live) >> 32);
  }
};

/// Draws whose sizes are log-uniform. They repeat from the beginning when used up. The same seed
/// gives every subject the same draws.
class Draws {
 public:
  Draws(std::uint64_t seed, double smallest, double largest);

  const Draw& next() noexcept { return first_[next_++ % kCount]; }

 private:
  static constexpr std::size_t kCount = std::size_t{1} << 17;

  static std::vector<Draw> draw(std::uint64_t seed, double smallest, double largest);

  std::shared_ptr<const std::vector<Draw>> all_;
  const Draw* first_;
  std::size_t next_ = 0;
};

/// A live block, as the program stores it.
struct Held {
  void* address = nullptr;
  std::size_t bytes = 0;
  unsigned stream = 0;
};

/// The live bytes and their peak.
class LiveBytes {
 public:
  void add(std::size_t bytes) noexcept {
    now_ += bytes;
    if (now_ > peak_) peak_ = now_;
  }
  void subtract(std::size_t bytes) noexcept { now_ -= bytes; }
  [[nodiscard]] std::size_t peak() const noexcept { return peak_; }

 private:
  std::size_t now_ = 0, peak_ = 0;
};

}  // namespace millrace::bench
