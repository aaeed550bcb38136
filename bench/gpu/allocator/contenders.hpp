#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "device/cuda/handles.hpp"

namespace millrace::bench {

/// The streams that blocks are for: they belong to `main`, and `side` may use them too.
struct Streams {
  cuda::UniqueStream main = cuda::make_stream(), side = cuda::make_stream();
  cuda::UniqueEvent side_done = cuda::make_event();  ///< for allocators without recorded uses

  /// What a caller does before a free where the allocator knows of one stream only.
  void order_main_after_side() const;
};

/// An allocator to be measured, as a program that is written for it would use it.
class Contender {
 public:
  virtual ~Contender() = default;
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* address, std::size_t bytes) = 0;
  /// Frees a block that `side` used as well.
  virtual void free_used_by_side(void* address, std::size_t bytes) = 0;
};

using MakeContender = std::unique_ptr<Contender> (*)(const Streams&);

std::unique_ptr<Contender> make_millrace(const Streams& streams);
std::unique_ptr<Contender> make_torch_preset(const Streams& streams);
std::unique_ptr<Contender> make_driver_pool(const Streams& streams);
std::unique_ptr<Contender> make_cuda_malloc(const Streams& streams);
std::unique_ptr<Contender> make_cub(const Streams& streams);
std::unique_ptr<Contender> make_thrust_pool(const Streams& streams);

}  // namespace millrace::bench
