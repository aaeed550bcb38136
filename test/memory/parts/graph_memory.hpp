#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "memory/graph/graph_memory.hpp"
#include "millrace/memory/out_of_memory.hpp"

namespace millrace::test {

/// A general allocator with `free` bytes. Its memory is only addresses.
struct CountedMemory final : GraphMemory {
  explicit CountedMemory(std::size_t free) : left(free) {}

  void* take(std::size_t bytes, StreamRef, Effort effort) override {
    efforts.push_back(effort);
    if (on_take) on_take(bytes, effort);
    const std::size_t most = effort == Effort::pressed ? left + left_if_pressed : left;
    if (bytes > most && effort == Effort::pressed) throw out_of_memory{MemoryPicture{}};
    if (bytes > most) return nullptr;
    left_if_pressed -= bytes > left ? bytes - left : 0;
    left -= bytes > left ? left : bytes;
    auto* const base = reinterpret_cast<void*>(next);
    next += bytes;
    given[base] = bytes;
    return base;
  }
  void give_back(void* base, const PointSet& points) override {
    left += given.at(base);
    given.erase(base);
    points_of_last.assign(points);
    if (on_give_back) on_give_back();
  }
  void close_front(StreamId) override {}

  std::size_t left, left_if_pressed = 0;
  std::uintptr_t next = std::uintptr_t{1} << 40;
  std::map<void*, std::size_t> given;
  std::vector<Effort> efforts;
  PointSet points_of_last;
  std::function<void(std::size_t bytes, Effort effort)> on_take;
  std::function<void()> on_give_back;
};

}  // namespace millrace::test
