#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/observe/allocation_trace.hpp"

namespace millrace::test {

/** @brief Writes a trace by hand: allocations, frees, and the order between streams. Addresses are
 * plain numbers. */
class TraceBuilder {
 public:
  static StreamId stream(std::uint32_t slot) { return {slot, 1}; }

  struct Request {
    std::uintptr_t address;
    std::size_t bytes;
    std::size_t requested = 0;  ///< 0: all bytes
    std::string_view tag = "";
  };

  std::uint64_t allocate(StreamId user, Request request) { return allocate(user, user, request); }

  std::uint64_t allocate(StreamId owner, StreamId user, Request request) {
    const std::size_t requested = request.requested == 0 ? request.bytes : request.requested;
    trace.allocated({++last_id_, reinterpret_cast<void*>(request.address), requested, request.bytes,
                     owner, user, request.tag, frontiers_[user], completed_});
    blocks_[last_id_] = request;
    return last_id_;
  }

  void free(std::uint64_t id, std::vector<Point> points) {
    const Request& request = blocks_.at(id);
    trace.freed({id, reinterpret_cast<void*>(request.address), request.bytes, points});
  }

  /** @brief Orders later work of `stream` after `point`. */
  void order(StreamId stream, Point point) { frontiers_[stream].advance(point); }
  void finish(Point point) { completed_.advance(point); }

  void acquire(std::uintptr_t base, std::size_t bytes) {
    trace.segment_acquired(reinterpret_cast<void*>(base), bytes);
  }
  void release(std::uintptr_t base, std::size_t bytes) {
    trace.segment_released(reinterpret_cast<void*>(base), bytes);
  }

  void move(std::uintptr_t to, std::uintptr_t from, std::size_t bytes) {
    trace.pages_moved(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  }

  AllocationTrace trace;

 private:
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Request> blocks_;
  std::map<StreamId, Frontier> frontiers_;
  Frontier completed_;
};

}  // namespace millrace::test
