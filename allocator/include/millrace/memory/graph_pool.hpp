#pragma once

#include <cstddef>
#include <memory>

#include "millrace/memory/caching_allocator.hpp"

/// @file
/// Memory for CUDA graphs: docs/graph-capture.md.
///
///   GraphPool pool{allocator};                // may be shared by graphs that never run at once
///   GraphCapture capture{pool, stream};       // first
///   cudaStreamBeginCapture(stream, mode);
///   ... allocate, launch, deallocate on `stream`, as ever ...
///   cudaStreamEndCapture(stream, &graph);
///   capture.end();                            // last; without it the capture is abandoned
///   ... keep `pool`, or a copy of it, with the graph and with each executable ...

namespace millrace {

/**
 * @brief Memory that graphs use: theirs alone from the first capture until nobody holds it.
 *
 * A handle: each copy is a holder, one for each graph and each executable. While there is one, the
 * addresses that a capture was given are given to later captures of the same pool and to nobody
 * else. When the last is gone, the next call of the allocator that takes its lock makes what is
 * free in the pool general memory again; blocks that are live follow when they are freed. Any
 * thread may call, and drop a holder, a host callback too. Holders may outlive the allocator.
 */
class GraphPool {
 public:
  /** @brief What the holders are, and so what the memory still waits for when the last is gone. */
  enum class HeldUntil {
    /** The executable is destroyed: a launch may still run. The memory's next use comes after the
     * launches that `launched` told of; if it told of none, after the device was synchronised. */
    destroyed,
    /** The executable is destroyed and its last launch has ended, as user objects have it that the
     * graph owns (`retain`). Nothing is waited for. */
    executed,
  };

  /** @param allocator  whose memory it is */
  explicit GraphPool(CachingAllocator& allocator, HeldUntil until = HeldUntil::destroyed);

  /**
   * @brief Makes sure that `bytes` in one piece are in the pool, so that captures which need no
   *        more make no driver call.
   * @throws out_of_memory as `allocate` does
   * @throws std::logic_error while a capture goes on
   */
  void reserve(std::size_t bytes);

  /**
   * @brief A graph that uses the pool was launched on `stream`, just now. Tell all launches or
   * none.
   *
   * Costs a lock; on a stream that is not attached, a record as well.
   */
  void launched(StreamRef stream);

  /**
   * @brief One more holder, for C: a CUDA user object that a graph retains.
   *
   *   cudaUserObjectCreate(&object, pool.retain(), GraphPool::release, 1,
   *                        cudaUserObjectNoDestructorSync);
   *   cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
   */
  [[nodiscard]] void* retain() const;
  /** @brief Drops what `retain` gave. Makes no driver call. */
  static void release(void* retained) noexcept;

  [[nodiscard]] GraphPoolStatistics statistics() const;

  struct Hold;

 private:
  friend class GraphCapture;
  std::shared_ptr<Hold> hold_;
};

/**
 * @brief Announces that a stream is captured into a graph whose memory is a pool's. Holds the pool.
 *
 * Make it before the driver's capture begins, and end it after the driver's has ended. In between,
 * of the allocator that the pool is of:
 *   - `allocate` on a stream of the capture gives memory of the pool. It makes no driver call while
 *     the pool or the allocator's free memory that is known to be complete serves; else it grows,
 *     which CudaDevice does in a way that leaves the capture sound. It never asks, records or waits
 *     on an event; before it fails it does what any request does.
 *   - memory freed in the capture serves the capture again: on the stream that freed it at once, on
 *     others once `wait` told that they are ordered after it.
 *   - a free of other memory makes no driver call on a stream of the capture; a mark there is made
 *     afterwards.
 *   - `record_use(p, stream of the capture)` of memory from outside says that the graph uses it: it
 *     can be freed at any time, and is kept until the pool is held by nobody.
 *   - the device as a whole is not synchronised by Millrace, and refuses to be (`capture`).
 * One thread at a time may call it; any may allocate meanwhile.
 */
class GraphCapture {
 public:
  /**
   * @brief Polls the device. `origin` is captured from now on.
   * @throws std::logic_error if the pool is in a capture already
   * @throws std::invalid_argument if `origin` is, or is the legacy or the per-thread stream
   */
  GraphCapture(GraphPool pool, StreamRef origin);
  /** @brief Abandons it, unless it has ended. */
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

  /**
   * @brief What was captured on `stream` so far, to be waited for: where the program records an
   *        event. @throws std::invalid_argument if the stream is not in this capture
   */
  [[nodiscard]] Point mark(StreamRef stream);
  /**
   * @brief `stream` now waits for what `mark` returned: where the program makes it wait for the
   *        event. A stream that took no part is captured from now on.
   * @param marker  {}: it takes part, ordered after nothing that is known
   */
  void wait(StreamRef stream, Point marker);
  [[nodiscard]] bool has(StreamRef stream) const;  ///< whether it takes part

  /** @brief A graph came of it. Blocks that are live are its outputs, the caller's to free. */
  void end();
  /**
   * @brief None did. What was acquired for it alone and is free goes back at once; blocks that are
   *        live are the caller's to free, as ever.
   */
  void abandon() noexcept;

 private:
  GraphPool pool_;
  bool going_on_ = true;
};

}  // namespace millrace
