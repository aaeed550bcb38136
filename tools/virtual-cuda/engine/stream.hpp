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

/** The object that a cudaStream_t points to. It is never freed. A later stream reuses it. */
struct CUstream_st {
  static constexpr std::uint32_t kMagic = 0x5354524d;
  enum class Role : unsigned char { made, legacy, per_thread };

  std::uint32_t magic = 0;
  Role role = Role::made;
  unsigned flags = 0;
  int priority = 0;
  unsigned device = 0;
  std::uint64_t id = 0;
  millrace::virtual_cuda::OperationRef tail;  ///< the last operation; may be null or done
  std::shared_ptr<millrace::virtual_cuda::Capture> capture;
  std::vector<cudaGraphNode_t> capture_tails;    ///< what the next captured node depends on
  std::vector<cudaGraphEdgeData> capture_edges;  ///< zeros, for programs that ask for edge data
  std::map<int, std::array<char, 64>> attributes;

  // For the report.
  std::uint64_t operations = 0;
  std::size_t allocated = 0;
  std::size_t peak_allocated = 0;

  /** Whether the stream and the legacy stream synchronize with each other. */
  [[nodiscard]] bool blocking() const noexcept {
    return role != Role::legacy && (flags & cudaStreamNonBlocking) == 0;
  }
};
