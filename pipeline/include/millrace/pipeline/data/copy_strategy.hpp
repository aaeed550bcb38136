#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/memory/allocator.hpp"
#include "millrace/memory/buffer.hpp"
#include "millrace/pipeline/data/host_batch.hpp"

namespace millrace {

/**
 * @brief How a batch gets to the device.
 *
 *   name          destination belongs to     the copy waits for            the batch is freed
 *   side_stream   the copy stream            nothing                       recorded as used on main
 *   in_place      the main stream            main's tail at that moment    on main
 *   precise       the main stream            the block's last use          on main
 *   ring          persistent slots           the slot's last readers       never, until the end
 *   driver_async  the driver's pool, copy    nothing                       on main, stream-ordered
 */
enum class CopyMethod { side_stream, in_place, precise, ring, driver_async };

inline constexpr std::array kCopyMethods{CopyMethod::side_stream, CopyMethod::in_place,
                                         CopyMethod::precise, CopyMethod::ring,
                                         CopyMethod::driver_async};

/** @brief "side-stream", "in-place", ... */
[[nodiscard]] std::string_view to_string(CopyMethod method) noexcept;
/** @throws std::invalid_argument that lists the names there are */
[[nodiscard]] CopyMethod parse_copy_method(std::string_view name);

/** @brief What a consumer of a copy, or of an exchange, waits for. */
enum class Waits {
  coarse,   ///< all that is queued on the producing stream: `wait_stream`
  precise,  ///< the marker behind the work that is needed
};

/** @brief "coarse", "precise" */
[[nodiscard]] std::string_view to_string(Waits waits) noexcept;
/** @throws std::invalid_argument that lists the names there are */
[[nodiscard]] Waits parse_waits(std::string_view name);

/** @brief Told where a batch's copies begin and end on the copy stream, behind what they wait for.
 */
class CopyObserver {
 public:
  virtual ~CopyObserver() = default;
  virtual void copies_begin(Stream& copy) = 0;
  virtual void copies_end(Stream& copy) = 0;
};

/** @brief What a strategy works with. All of it outlives the strategy. */
struct CopySetting {
  Allocator& allocator;  ///< of device memory; for `driver_async` one with the driver's pool
  Stream& main;
  Stream& copy;
  std::size_t depth = 2;  ///< batches that are held at once at most: the ring's slots
  Waits waits = Waits::coarse;
  CopyObserver* observer = nullptr;
  Tag tag{};  ///< of `allocator`: what the batches' bytes are counted under
};

/** @brief A tensor of a batch in device memory, borrowed. */
struct DeviceTensor {
  void* data = nullptr;
  std::size_t bytes = 0;
};

class CopyStrategy;

/** @brief A batch on the device, or on its way there. Freed as its strategy does it. Move-only. */
class DeviceBatch {
 public:
  DeviceBatch() = default;
  ~DeviceBatch();
  DeviceBatch(DeviceBatch&& other) noexcept;
  DeviceBatch& operator=(DeviceBatch&& other) noexcept;

  [[nodiscard]] std::span<const DeviceTensor> tensors() const noexcept { return tensors_; }
  /** @brief The marker behind its copies on the copy stream. */
  [[nodiscard]] Point copied() const noexcept { return copied_.point(); }

  /** @brief `user` waits for the copy, and may use the batch until it is released. */
  void hand_to(Stream& user);
  /** @brief The same for a stream that is ordered after the copy already. */
  void record_use(StreamRef user);
  /**
   * @brief Every use of the batch, on whichever stream, precedes `marker`. `precise` then holds its
   *        memory back until there, not until the release; the other strategies do not care.
   */
  void last_used(Point marker) noexcept { last_used_ = marker; }
  /** @brief Frees; follows, on the host, all that enqueued a use. Nothing if there is no batch. */
  void release();
  /**
   * @brief The same for `count` tensors from `first` on, where they have memory of their own.
   * @param marker  as `last_used`, of these
   */
  void release(std::size_t first, std::size_t count, Point marker);

 private:
  friend class CopyStrategy;

  CopyStrategy* strategy_ = nullptr;
  std::vector<DeviceTensor> tensors_;
  std::vector<Buffer> memory_;  ///< none where the memory stays the strategy's
  std::size_t slot_ = 0;        ///< the ring's
  Event copied_;
  bool main_waited_ = false;
  Point last_used_;  ///< {}: not told
};

/**
 * @brief Brings batches to the device on the copy stream. One thread at a time.
 *
 *   DeviceBatch batch = host.to(*strategy, copy);   // nothing waits yet
 *   host.release(batch.copied());
 *   batch.hand_to(main);                        // main waits, and its use is recorded
 *   ... enqueue work on main ...
 *   batch.release();
 */
class CopyStrategy {
 public:
  /** @throws std::invalid_argument if the depth is 0 */
  [[nodiscard]] static std::unique_ptr<CopyStrategy> make(CopyMethod method,
                                                          const CopySetting& setting);
  virtual ~CopyStrategy() = default;
  CopyStrategy(const CopyStrategy&) = delete;
  CopyStrategy& operator=(const CopyStrategy&) = delete;

  /**
   * @brief Enqueues the copy of every tensor, in order, and a marker behind them.
   * @throws out_of_memory, DeviceError as `Allocator::allocate`; the batch is then not there
   * @throws std::logic_error if more batches are held than the setting's depth (`ring` only)
   */
  [[nodiscard]] DeviceBatch copy(std::span<const HostTensor> tensors);
  /** @brief The same. @throws std::invalid_argument if `copy` is not the setting's copy stream */
  [[nodiscard]] DeviceBatch copy(std::span<const HostTensor> tensors, Stream& copy);

 protected:
  explicit CopyStrategy(const CopySetting& setting) : setting_(setting) {}

  /** @brief What a strategy decides on. It sees a batch as its parts. */
  struct Parts {
    std::vector<DeviceTensor>& tensors;
    std::vector<Buffer>& memory;
    std::size_t& slot;
    bool main_waited;
    Point last_used;
  };

  /** @brief Finds room for `sources` and makes the copy stream wait for what it has to. */
  virtual void place(std::span<const HostTensor> sources, const Parts& batch) = 0;
  virtual void use(const Parts& batch, StreamRef user) = 0;
  virtual void give_back(const Parts& batch) = 0;
  /** @brief Only so many tensors from `first` on, if that can be. */
  virtual void give_back(const Parts&, std::size_t /*first*/, std::size_t /*count*/) {}

  const CopySetting setting_;

 private:
  friend class DeviceBatch;
  [[nodiscard]] static Parts parts(DeviceBatch& batch);
};

}  // namespace millrace
