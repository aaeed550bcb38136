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

enum class Access : unsigned char { read, write, read_write };

/** @brief Memory that an operation touches: device memory, or pinned host memory. */
struct View {
  void* address = nullptr;
  std::size_t bytes = 0;
  Access access = Access::read;
};

/**
 * @brief What a kernel asks of the machine. The device turns it into time.
 *
 * A kernel alone takes `fixed` and then as long as the resource that it asks most of: flops / peak,
 * bytes / bandwidth, or its traffic to pinned host memory over the link, each way; kernels that run
 * at once share the machine.
 */
struct Cost {
  double flops = 0;         ///< floating-point operations
  double bytes = 0;         ///< device-memory traffic, read and written
  Nanoseconds fixed{0};     ///< time that no resource shortens (latency, links not modelled)
  double host_read = 0;     ///< bytes of pinned host memory that the kernel itself reads
  double host_written = 0;  ///< and writes
};

/** @brief What a host kernel gets: its views, in the order declared, as memory it may touch. */
class KernelContext {
 public:
  explicit KernelContext(std::span<const std::span<std::byte>> views) : views_(views) {}

  [[nodiscard]] std::span<std::byte> bytes(std::size_t view) const { return views_[view]; }

  /** @brief View number `view` as an array of `T`; trailing bytes short of a `T` are left out. */
  template <typename T>
  [[nodiscard]] std::span<T> as(std::size_t view) const {
    return {reinterpret_cast<T*>(views_[view].data()), views_[view].size() / sizeof(T)};
  }

 private:
  std::span<const std::span<std::byte>> views_;
};

class Meeting;

/**
 * @brief A kernel, declared once: what it touches, what it costs, and how each device runs it.
 *
 * Without `host`, a virtual device accounts for time and accesses and leaves the data alone.
 * Without `cuda`, a CUDA device runs a kernel that sweeps the declared views and occupies the
 * stream for the declared cost. With `meeting` it is a part of a collective of virtual devices.
 */
struct Operation {
  std::string name;
  std::vector<View> views;
  Cost cost;
  std::function<void(const KernelContext&)> host;
  std::function<void(void* native_stream)> cuda;  ///< enqueues on a `cudaStream_t`, never syncs
  std::shared_ptr<Meeting> meeting;               ///< none on a CUDA device
  unsigned party = 0;                             ///< of the meeting's, from 0
};

}  // namespace millrace
