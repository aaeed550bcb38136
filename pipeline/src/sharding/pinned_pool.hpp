#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "millrace/device/stream.hpp"

namespace millrace::sharding {

/** @brief Small pieces of pinned memory, which are reused when the device is done with them. */
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  /**
   * @brief A piece. Its destructor returns it to the pool, which reuses it only after all work that
   * the stream has at that time.
   */
  class Piece {
   public:
    Piece() = default;
    Piece(Piece&& other) noexcept
        : pool_(std::move(other.pool_)),
          stream_(other.stream_),
          memory_(std::move(other.memory_)) {}
    Piece& operator=(Piece&& other) noexcept;
    ~Piece() { give_back(); }

    [[nodiscard]] std::byte* data() const noexcept { return memory_.data; }
    /** @brief Call it when all use of the piece by the device is enqueued. @throws DeviceError */
    void record_use();
    /** @brief Returns the event that `record_use` recorded. */
    [[nodiscard]] const Event& used() const noexcept { return memory_.used; }

   private:
    friend PinnedPool;
    struct Memory {
      std::byte* data = nullptr;
      std::size_t bytes = 0;
      Event used;
    };

    Piece(std::shared_ptr<PinnedPool> pool, const StreamRef& stream, Memory memory)
        : pool_(std::move(pool)), stream_(stream), memory_(std::move(memory)) {}
    void give_back() noexcept;

    std::shared_ptr<PinnedPool> pool_;
    std::optional<StreamRef> stream_;
    Memory memory_;
  };

  explicit PinnedPool(OrderedDevice& device) : device_(device) {}
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  /** @param stream  the only stream that uses the piece */
  [[nodiscard]] Piece take(std::size_t bytes, StreamRef stream);

 private:
  OrderedDevice& device_;
  std::vector<Piece::Memory> idle_;
};

}  // namespace millrace::sharding
