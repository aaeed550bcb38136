#pragma once

#include <cstddef>
#include <memory>

#include "millrace/memory/caching_allocator.hpp"

/// @file
/// Memory for CUDA graphs: docs/graph-capture.md.
///
///   GraphPool pool{allocator};                // graphs that never run at once may share it
///   GraphCapture capture{pool, stream};       // first
///   cudaStreamBeginCapture(stream, mode);
///   ... allocate, launch, deallocate on `stream`, as usual ...
///   cudaStreamEndCapture(stream, &graph);
///   capture.end();                            // last; a capture without it is abandoned
///   ... keep a copy of `pool` with the graph and with each executable ...

namespace millrace {

/**
 * @brief Memory that belongs to graphs, from their first capture until the pool has no holder.
 *
 * This is a handle. Each copy is one holder: keep one with each graph and each executable. While a
 * holder exists, later captures of the pool reuse its addresses, and no other request gets them.
 * After the last holder is gone, the pool's free memory becomes general again in the next
 * allocation that takes the allocator's lock, or in the next call that reads statistics or releases
 * memory. The memory of live blocks becomes general when they are freed.
 *
 * Thread-safe. Any thread may drop a holder, also in a host callback. Holders may outlive the
 * allocator and the device.
 */
class GraphPool {
 public:
  /**
   * @brief What the end of the last holder proves. The next use of the pool's memory waits for the
   *        rest.
   */
  enum class HeldUntil {
    /**
     * The executable is destroyed; a launch may still run. The next use of the memory comes after
     * the launches that `launched` reported. If it reported none, the next use comes after the next
     * synchronization of the device.
     */
    destroyed,
    /**
     * The executable is destroyed and its last launch has ended: the holders are user objects that
     * the graph retains (`retain`). The next use of the memory waits for nothing.
     */
    executed,
  };

  /**
   * @brief Makes a pool and its first holder.
   * @param allocator  serves the pool's memory
   * @param until      what the end of the last holder means
   */
  explicit GraphPool(CachingAllocator& allocator, HeldUntil until = HeldUntil::destroyed);

  /**
   * @brief Adds memory to the pool until it has `bytes` in one piece. Captures that need no more
   *        make no driver call.
   * @param bytes  size of the piece
   * @throws out_of_memory like `Allocator::allocate`
   * @throws std::logic_error during a capture, and after the allocator is gone
   */
  void reserve(std::size_t bytes);

  /**
   * @brief Reports that a graph which uses the pool was launched on `stream`. Call it just after
   *        the launch, and for all launches or for none.
   *
   * Takes a lock. Records a marker if the stream is not attached.
   * @param stream  the stream of the launch
   * @throws std::logic_error if the allocator is gone
   */
  void launched(StreamRef stream);

  /**
   * @brief Makes one more holder, for a C interface: a CUDA user object that a graph retains.
   *
   *   cudaUserObjectCreate(&object, pool.retain(), GraphPool::release, 1,
   *                        cudaUserObjectNoDestructorSync);
   *   cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
   *
   * @return the argument of `release`
   */
  [[nodiscard]] void* retain() const;
  /**
   * @brief Drops a holder that `retain` made. Makes no driver call.
   * @param retained  from `retain`
   */
  static void release(void* retained) noexcept;

  /** @brief Returns the memory of this pool. */
  [[nodiscard]] GraphPoolStatistics statistics() const;

  struct Hold;

 private:
  friend class GraphCapture;
  std::shared_ptr<Hold> hold_;
};

/**
 * @brief Announces a capture: a stream is captured into a graph, which uses the pool's memory.
 *        Holds the pool.
 *
 * Make it before the driver's capture begins. End it after the driver's capture has ended. In
 * between, calls of the pool's allocator behave as follows:
 *   - `allocate` on a stream of the capture returns memory of the pool. It makes no driver call
 *     while the pool, or free memory of the allocator that is known to be complete, serves the
 *     request. Otherwise the pool grows, by calls that keep the capture valid. It queries, records
 *     and waits for no event, except in a request that would otherwise fail.
 *   - The capture reuses memory that is freed in it: the stream of the free at once, other streams
 *     after `wait` ordered them.
 *   - A free of other memory on a stream of the capture makes no driver call. A mark on that stream
 *     is made when the capture ends.
 *   - `record_use(p, stream of the capture)` with a block of other memory states that the graph
 *     uses the block. It can be freed at any time; the allocator keeps it until the pool has no
 *     holder.
 *   - Millrace does not synchronize the device, and refuses to (ErrorCode::capture).
 * One thread at a time may call a GraphCapture. Any thread may allocate meanwhile.
 */
class GraphCapture {
 public:
  /**
   * @brief Begins a capture of `origin`. Polls the device. Nothing has changed if it throws.
   * @param pool    serves the captured allocations
   * @param origin  the stream on which the driver's capture begins
   * @throws std::logic_error if the pool is in a capture
   * @throws std::invalid_argument if `origin` is in a capture of the allocator, or is the legacy or
   *         the per-thread stream
   */
  GraphCapture(GraphPool pool, StreamRef origin);
  /** @brief Abandons the capture, unless it has ended. */
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

  /**
   * @brief Marks the work that was captured on `stream` so far. Call it where the program records
   *        an event.
   * @return the marker, for `wait`
   * @throws std::invalid_argument if the stream is not in this capture
   */
  [[nodiscard]] Point mark(StreamRef stream);
  /**
   * @brief Orders `stream` after a mark. Call it where the program makes `stream` wait for the
   *        event. Adds a stream to the capture that is not in it; if that throws, the stream is not
   *        added.
   * @param stream  the stream that waits
   * @param marker  from `mark`; {} adds the stream and orders it after nothing
   * @throws std::logic_error after the end
   * @throws std::invalid_argument like the constructor
   */
  void wait(StreamRef stream, Point marker);
  [[nodiscard]] bool has(StreamRef stream) const;  ///< whether the stream is in the capture

  /**
   * @brief Ends a capture that made a graph. The caller still frees the blocks that are live, which
   *        are the graph's outputs.
   */
  void end();
  /**
   * @brief Ends a capture that made no graph. Releases at once the free memory that was acquired
   *        only for this capture. The caller still frees the blocks that are live.
   */
  void abandon() noexcept;

 private:
  GraphPool pool_;
  bool going_on_ = true;
};

}  // namespace millrace
