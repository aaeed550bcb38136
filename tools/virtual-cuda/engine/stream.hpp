#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "engine/operation.hpp"

namespace millrace::virtual_cuda {
struct Capture;
}  // namespace millrace::virtual_cuda

/** What a cudaStream_t points to. Never freed: a destroyed stream's memory serves a later one. */
struct CUstream_st {
  static constexpr std::uint32_t kMagic = 0x5354524d;
  enum class Role : unsigned char { made, legacy, per_thread };

  std::uint32_t magic = 0;
  Role role = Role::made;
  unsigned flags = 0;
  int priority = 0;
  unsigned device = 0;
  std::uint64_t id = 0;
  millrace::virtual_cuda::OperationRef tail;  ///< the last operation; null if it is done
  std::shared_ptr<millrace::virtual_cuda::Capture> capture;
  std::vector<cudaGraphNode_t> capture_tails;    ///< what the next captured node depends on
  std::vector<cudaGraphEdgeData> capture_edges;  ///< zeros, for programs that ask for the edges
  std::map<int, std::array<char, 64>> attributes;

  // For the report.
  std::uint64_t operations = 0;
  std::size_t allocated = 0;
  std::size_t peak_allocated = 0;

  /** Takes part in the legacy stream's synchronization. */
  [[nodiscard]] bool blocking() const noexcept {
    return role != Role::legacy && (flags & cudaStreamNonBlocking) == 0;
  }
};
