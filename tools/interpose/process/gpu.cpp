#include "process/gpu.hpp"

#include <algorithm>
#include <utility>

#include "millrace/device/cuda_device.hpp"

namespace millrace::interpose {
namespace {

// Limits of a snapshot's history. PyTorch's viewer can open files up to about 300 MiB.
constexpr std::size_t kHistory = 500'000, kStackFrames = 24;

DeviceMemory::Options options(const Settings& settings) {
  DeviceMemory::Options options;
  // MILLRACE_DEBUG: the program's cudaMalloc bypasses its checks.
  options.reads_environment = false;
  if (settings.waits) options.policy = Policy::millrace();
  return options;
}

}  // namespace

Gpu::Gpu(int ordinal, const Settings& settings, Recorder& recorder)
    : ordinal_(ordinal),
      device_(CudaDevice::create(ordinal),
              settings.what_if ? ProgramDevice::Memory::numbers : ProgramDevice::Memory::of_gpu),
      memory_bytes_(device_.memory_info().total),
      memory_(device_, ordinal, options(settings)),
      program_(memory_),
      log_(recorder, order(), ordinal, memory_bytes_),
      what_if_(settings.what_if) {
  if (!settings.snapshot.empty())
    memory_.record_history({.allocations = kHistory, .stack_frames = kStackFrames});
}

bool Gpu::owns(const void* address) const {
  if (!what_if_) return memory_.is_live(address);
  const std::lock_guard lock{beside_mutex_};
  return beside_.contains(address);
}

void Gpu::add_beside(void* address, const Beside& beside, std::size_t own_pool) {
  const std::lock_guard lock{beside_mutex_};
  beside_[address] = beside;
  own_now_ += beside.own_bytes;
  if (beside.own_bytes != 0) log_.reserved(address, beside.own_bytes);
  if (own_pool > own_pool_) log_.reserved(nullptr, own_pool - own_pool_);
  if (own_pool < own_pool_) log_.released(nullptr, own_pool_ - own_pool);
  own_pool_ = own_pool;
  own_peak_ = std::max(own_peak_, own_now_ + own_pool);
  device_.set_own(own_now_ + own_pool_);
}

void Gpu::set_beside(void* address, void* block) {
  const std::lock_guard lock{beside_mutex_};
  const auto it = beside_.find(address);
  if (it != beside_.end()) it->second.block = block;
}

std::optional<Gpu::Beside> Gpu::take_beside(void* address) {
  const std::lock_guard lock{beside_mutex_};
  const auto it = beside_.find(address);
  if (it == beside_.end()) return std::nullopt;
  const Beside beside = it->second;
  beside_.erase(it);
  own_now_ -= beside.own_bytes;
  if (beside.own_bytes != 0) log_.released(address, beside.own_bytes);
  device_.set_own(own_now_ + own_pool_);
  return beside;
}

std::size_t Gpu::own_peak() const {
  const std::lock_guard lock{beside_mutex_};
  return own_peak_;
}

void* Gpu::allocate_for_all(std::size_t bytes) { return program_.allocate_for_all(bytes); }

void* Gpu::allocate(std::size_t bytes, cudaStream_t stream) {
  return program_.allocate(bytes, handle_of(stream));
}

StreamRef Gpu::known(cudaStream_t stream) const {
  return order().resolve(StreamRef{handle_of(stream)});
}

void Gpu::free_completed(void* address) {
  program_.free_completed(address, [&](StreamRef freed) {
    const ProgramCall synchronized;
    order().synchronize(freed);
  });
}

void Gpu::free(void* address, cudaStream_t stream) { program_.free(address, handle_of(stream)); }

void Gpu::count_out_of_memory(std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  ++out_of_memory_.requests;
  out_of_memory_.largest = std::max<std::uint64_t>(out_of_memory_.largest, bytes);
}

Gpu::OutOfMemory Gpu::out_of_memory() const {
  const std::lock_guard lock{mutex_};
  return out_of_memory_;
}

void Gpu::free_later(void* address) {
  const std::lock_guard lock{mutex_};
  later_.push_back(address);
  any_later_ = true;
}

std::vector<void*> Gpu::take_later() {
  if (!any_later_.load(std::memory_order_relaxed)) return {};
  const std::lock_guard lock{mutex_};
  any_later_ = false;
  return std::exchange(later_, {});
}

// OrderedDevice refuses some calls, such as a synchronization while it knows of a capture. Then
// only the program's call is made.
void Gpu::synchronize(const std::function<bool()>& call) {
  const ProgramCall program{call};
  try {
    order().synchronize();
    log_.passed_device();
  } catch (const DeviceError&) {
    if (!program.was_made()) call();
  }
}

void Gpu::synchronize(StreamRef stream, const std::function<bool()>& call, bool queries) {
  const ProgramCall program{call};
  try {
    order().synchronize(stream);
    log_.passed_stream(stream, queries);
  } catch (const DeviceError&) {
    if (!program.was_made()) {
      call();
    } else if (queries) {
      log_.stream_not_passed(stream);
    }
  }
}

Point Gpu::mark(StreamRef stream) {
  const Point marker = order().mark(stream);
  log_.marked(stream, marker);
  return marker;
}

void Gpu::joined(StreamRef waiter, Point marker) {
  const ProgramCall has_waited;
  try {
    order().wait_for(waiter, marker);
    log_.waited(waiter, marker);
  } catch (const DeviceError&) {  // the edge stays unknown, which only delays reuse
  }
}

void Gpu::passed(Point marker, bool queried) {
  const ProgramCall has_waited;
  try {
    order().synchronize(marker);
    log_.passed(marker, queried);
  } catch (const DeviceError&) {
  }
}

void Gpu::allow_peer(int peer) { device_.gpu().allow_peer(peer); }

}  // namespace millrace::interpose
