#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace millrace {

using Nanoseconds = std::chrono::nanoseconds;

/** @brief How an operation accesses a view. */
enum class Access : unsigned char { read, write, read_write };

/** @brief Memory that an operation touches: device memory, or pinned host memory. */
struct View {
  void* address = nullptr;
  std::size_t bytes = 0;
  Access access = Access::read;
};

/**
 * @brief The resources that a kernel uses. The device computes the kernel's time from them.
 *
 * A kernel that runs alone takes `fixed` plus the longest of: flops / peak rate, bytes / bandwidth,
 * and its traffic to and from pinned host memory over the link (each direction separately). Kernels
 * that run at the same time share the machine.
 */
struct Cost {
  double flops = 0;         ///< floating-point operations
  double bytes = 0;         ///< device-memory traffic, read and written
  Nanoseconds fixed{0};     ///< time independent of resources (latency, links not modeled)
  double host_read = 0;     ///< bytes of pinned host memory that the kernel reads
  double host_written = 0;  ///< bytes of pinned host memory that the kernel writes
};

/** @brief The argument of a host kernel: its views, in the declared order, as accessible memory. */
class KernelContext {
 public:
  explicit KernelContext(std::span<const std::span<std::byte>> views) : views_(views) {}

  /** @brief Returns view number `view` as bytes. */
  [[nodiscard]] std::span<std::byte> bytes(std::size_t view) const { return views_[view]; }

  /** @brief Returns view number `view` as an array of `T`, without an incomplete `T` at the end. */
  template <typename T>
  [[nodiscard]] std::span<T> as(std::size_t view) const {
    return {reinterpret_cast<T*>(views_[view].data()), views_[view].size() / sizeof(T)};
  }

 private:
  std::span<const std::span<std::byte>> views_;
};

class Meeting;

/**
 * @brief A kernel: the memory that it touches, its cost, and its implementation for each device.
 *
 * Without `host`, a virtual device accounts for time and accesses and does not change the data.
 * Without `cuda`, a CUDA device runs a synthetic kernel that touches the declared views and
 * occupies the stream for the declared cost. With `meeting`, the operation is one part of a
 * collective of virtual devices.
 */
struct Operation {
  std::string name;
  std::vector<View> views;
  Cost cost;
  std::function<void(const KernelContext&)> host;
  std::function<void(void* native_stream)> cuda;  ///< enqueues on a `cudaStream_t`; must not wait
  std::shared_ptr<Meeting> meeting;               ///< nullptr on a CUDA device
  unsigned party = 0;                             ///< number of this part in the meeting, from 0
};

}  // namespace millrace
