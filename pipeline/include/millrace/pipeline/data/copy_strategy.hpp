#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
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

/** @brief A copy strategy's row in `kCopyStrategies`. */
struct CopyStrategyTraits {
  CopyMethod method;
  std::string_view name;
  char letter;               ///< letter of the strategy in pictures; unique
  std::string_view summary;  ///< completes "a batch is copied ..."
  std::string_view advice;   ///< how a program does the same without CopyStrategy, as an imperative
  bool uses_driver_pool = false;  ///< batches come from the driver's pool, for every allocator
};

/**
 * @brief All copy strategies, in the order of CopyMethod. A new strategy needs an enumerator, a row
 * here, and its class in src/data/copy_strategy.cpp. Help, messages and pictures are made from the
 * rows.
 */
inline constexpr std::array kCopyStrategies{
    CopyStrategyTraits{CopyMethod::side_stream, "side-stream", 's',
                       "into memory of the copy stream",
                       "allocate batches on the copy stream and record their use on main"},
    CopyStrategyTraits{CopyMethod::in_place, "in-place", 'i',
                       "into memory of main, the stream that computes, after all that main has "
                       "queued",
                       "allocate batches on main and let the copy wait for main's tail"},
    CopyStrategyTraits{CopyMethod::precise, "precise", 'p',
                       "into memory of main, after the last use of that block",
                       "allocate batches for main with the copy stream as first user, and free "
                       "them at their last use's marker"},
    CopyStrategyTraits{CopyMethod::ring, "ring", 'r', "into a few slots that are kept",
                       "copy into a few persistent slots with headroom"},
    CopyStrategyTraits{CopyMethod::driver_async, "driver-async", 'd', "into the driver's pool",
                       "allocate batches from the driver's pool, on the copy stream", true},
};

[[nodiscard]] constexpr const CopyStrategyTraits& traits_of(CopyMethod method) noexcept {
  return kCopyStrategies[static_cast<std::size_t>(method)];
}

/**
 * @brief Returns whether a run uses memory of the driver's pool. The pool does not report which
 * stream may use its free bytes.
 * @param allocator  the name of the run's allocator; "driver" is the driver's pool
 */
[[nodiscard]] constexpr bool uses_driver_pool(std::string_view allocator,
                                              CopyMethod method) noexcept {
  return allocator == "driver" || traits_of(method).uses_driver_pool;
}

inline constexpr auto kCopyMethods = [] {
  std::array<CopyMethod, kCopyStrategies.size()> methods{};
  for (std::size_t i = 0; i < methods.size(); ++i) methods[i] = kCopyStrategies[i].method;
  return methods;
}();

/** @brief Returns the name in `kCopyStrategies`. */
[[nodiscard]] std::string_view to_string(CopyMethod method) noexcept;
/** @brief Returns all names, for help and messages: "side-stream, in-place, ...". */
[[nodiscard]] std::string copy_strategy_names();

/** @brief The work for which the consumer of a copy or of an exchange waits. */
enum class Waits {
  coarse,   ///< everything enqueued on the producing stream so far, like `wait_stream`
  precise,  ///< only the marker recorded after the work that the consumer needs
};

inline constexpr std::array kWaits{Waits::coarse, Waits::precise};

/** @brief "coarse", "precise" */
[[nodiscard]] std::string_view to_string(Waits waits) noexcept;

/** @brief An observer that is called around the copies of each batch, for instance to time them. */
class CopyObserver {
 public:
  virtual ~CopyObserver() = default;
  /** @brief The waits of a batch's copies are enqueued on `copy`; the copies follow. */
  virtual void copies_begin(Stream& copy) = 0;
  /** @brief All copies of the batch are enqueued on `copy`. */
  virtual void copies_end(Stream& copy) = 0;
};

/** @brief The environment of a strategy. All referenced objects outlive the strategy. */
struct CopyEnvironment {
  Allocator& allocator;  ///< of device memory; for `driver_async` it must use the driver's pool
  Stream& main;
  Stream& copy;
  std::size_t depth = 2;  ///< maximum batches held at the same time; number of slots of `ring`
  Waits waits = Waits::coarse;
  CopyObserver* observer = nullptr;
  Tag tag{};  ///< the tag that `allocator` counts the batches' bytes under
};

/** @brief A tensor of a batch in device memory, borrowed. */
struct DeviceTensor {
  void* data = nullptr;
  std::size_t bytes = 0;
};

class CopyStrategy;

/**
 * @brief A batch on the device, or being copied to it. Move-only.
 *
 * The batch's strategy allocates and frees its memory. The strategy outlives the batch.
 */
class DeviceBatch {
 public:
  DeviceBatch() = default;
  ~DeviceBatch();
  DeviceBatch(DeviceBatch&& other) noexcept;
  DeviceBatch& operator=(DeviceBatch&& other) noexcept;

  [[nodiscard]] std::span<const DeviceTensor> tensors() const noexcept { return tensors_; }
  /** @brief The marker on the copy stream after the batch's copies. */
  [[nodiscard]] Point copied() const noexcept { return copied_.point(); }

  /**
   * @brief Makes `user` wait for the copies and records that it uses the batch.
   *
   * Work enqueued on `user` from now until `release` may use the batch.
   */
  void hand_to(Stream& user);
  /** @brief Like `hand_to`, for a stream that is already ordered after the copies: no wait. */
  void record_use(StreamRef user);
  /**
   * @brief Declares that every use of the batch, on any stream, precedes `marker`.
   *
   * With `precise`, the reuse of the memory is then ordered after `marker` instead of after the
   * release. The other strategies ignore it.
   */
  void last_used(Point marker) noexcept { last_used_ = marker; }
  /**
   * @brief Frees the batch. Does nothing if the object holds no batch.
   *
   * Call it on the host after all calls that enqueued a use of the batch.
   */
  void release();
  /**
   * @brief Frees only the `count` tensors that begin with tensor `first`, if the strategy gives
   *        each tensor its own memory; otherwise they are freed with the batch.
   * @param marker  every use of these tensors precedes it, as in `last_used`
   */
  void release(std::size_t first, std::size_t count, Point marker);

 private:
  friend class CopyStrategy;

  CopyStrategy* strategy_ = nullptr;
  std::vector<DeviceTensor> tensors_;
  std::vector<Buffer> memory_;  ///< empty if the strategy owns the memory
  std::size_t slot_ = 0;        ///< slot of `ring`
  Event copied_;
  bool main_waited_ = false;
  Point last_used_;  ///< {}: not declared
};

/**
 * @brief Copies batches to the device on the copy stream. Not thread-safe.
 *
 *   DeviceBatch batch = host.to(*strategy);   // on the copy stream; nothing waits yet
 *   host.release(batch.copied());
 *   batch.hand_to(main);                     // main waits, and its use is recorded
 *   ... enqueue work on main ...
 *   batch.release();
 */
class CopyStrategy {
 public:
  /** @brief Makes a strategy. @throws std::invalid_argument if the depth is 0 */
  [[nodiscard]] static std::unique_ptr<CopyStrategy> make(CopyMethod method,
                                                          const CopyEnvironment& environment);
  virtual ~CopyStrategy() = default;
  CopyStrategy(const CopyStrategy&) = delete;
  CopyStrategy& operator=(const CopyStrategy&) = delete;

  /**
   * @brief Enqueues the copy of each tensor, in order, and then a marker. Does not wait.
   * @param tensors  pinned memory that stays valid until the copies have run
   * @throws out_of_memory, DeviceError like `Allocator::allocate`; no batch exists then
   * @throws std::logic_error if more than `depth` batches are held at the same time (`ring` only)
   */
  [[nodiscard]] DeviceBatch copy(std::span<const HostTensor> tensors);

 protected:
  explicit CopyStrategy(const CopyEnvironment& environment) : environment_(environment) {}

  /** @brief The parts of a DeviceBatch that the strategies access. */
  struct Parts {
    std::vector<DeviceTensor>& tensors;
    std::vector<Buffer>& memory;
    std::size_t& slot;
    bool main_waited;
    Point last_used;
  };

  /** @brief Gets memory for `sources` and enqueues the waits that it needs on the copy stream. */
  virtual void place(std::span<const HostTensor> sources, const Parts& batch) = 0;
  /** @brief Records that `user` uses the batch; `user` is ordered after the copies. */
  virtual void use(const Parts& batch, StreamRef user) = 0;
  /** @brief Frees the batch's memory. */
  virtual void give_back(const Parts& batch) = 0;
  /** @brief Frees `count` tensors from `first` on, if each tensor has its own memory. */
  virtual void give_back(const Parts&, std::size_t /*first*/, std::size_t /*count*/) {}

  const CopyEnvironment environment_;

 private:
  friend class DeviceBatch;
  [[nodiscard]] static Parts parts(DeviceBatch& batch);
};

}  // namespace millrace
