#include "process/gpu.hpp"

#include <algorithm>
#include <utility>

#include "millrace/device/cuda_device.hpp"

namespace millrace::interpose {
namespace {

DeviceMemory::Options options(const Settings& settings) {
  DeviceMemory::Options options;
  if (settings.waits) options.policy = Policy::millrace();
  return options;
}

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

Gpu::Gpu(int ordinal, const Settings& settings)
    : ordinal_(ordinal),
      device_(CudaDevice::create(ordinal),
              settings.what_if ? ProgramDevice::Memory::numbers : ProgramDevice::Memory::of_gpu),
      memory_bytes_(device_.memory_info().total),
      memory_(device_, ordinal, options(settings)),
      all_(order().open_nominal("cudaMalloc")),
      freed_(order().open_nominal("cudaFree")),
      what_if_(settings.what_if) {}

bool Gpu::owns(const void* address) const {
  if (!what_if_) return memory_.is_live(address);
  const std::lock_guard lock{beside_mutex_};
  return beside_.contains(address);
}

void Gpu::add_beside(void* address, const Beside& beside, std::size_t own_pool) {
  const std::lock_guard lock{beside_mutex_};
  if (beside.block != nullptr) beside_[address] = beside;
  own_now_ += beside.own_bytes;
  own_peak_ = std::max(own_peak_, own_now_ + own_pool);
}

std::optional<Gpu::Beside> Gpu::take_beside(void* address) {
  const std::lock_guard lock{beside_mutex_};
  const auto it = beside_.find(address);
  if (it == beside_.end()) return std::nullopt;
  const Beside beside = it->second;
  beside_.erase(it);
  own_now_ -= beside.own_bytes;
  return beside;
}

std::size_t Gpu::own_peak() const {
  const std::lock_guard lock{beside_mutex_};
  return own_peak_;
}

void* Gpu::allocate_for_all(std::size_t bytes) {
  void* const address = memory_.caching().allocate(bytes, all_);
  log_.add({.did = Did::allocated_for_all, .address = number(address), .bytes = bytes});
  return address;
}

void* Gpu::allocate(std::size_t bytes, cudaStream_t stream) {
  void* const address =
      static_cast<Allocator&>(memory_).allocate(bytes, StreamRef{handle_of(stream)});
  const auto owner = memory_.caching().owner(address);
  log_.add({.did = Did::allocated,
            .stream = owner ? owner->id() : StreamId{},
            .address = number(address),
            .bytes = bytes});
  return address;
}

bool Gpu::for_all(const void* address) {
  const auto owner = memory_.caching().owner(address);
  return owner && owner->id() == all_.id();
}

// The order of a stream on which nothing else is ever ordered, so that all points of it may be
// declared complete: each was made after a synchronization.
void Gpu::free_completed(void* address) {
  log_.add({.did = Did::freed_completed, .address = number(address)});
  memory_.caching().deallocate(address, freed_);
  const ProgramCall synchronized;
  order().synchronize(freed_);
}

void Gpu::free(void* address, cudaStream_t stream) {
  const StreamRef named = order().resolve(StreamRef{handle_of(stream)});
  log_.add({.did = Did::freed, .stream = named.id(), .address = number(address)});
  // By the handle: the allocator tells a stream that has the handle of a block's former owner.
  if (!for_all(address)) return memory_.deallocate(address, StreamRef{handle_of(stream)});
  memory_.caching().deallocate(address, named);
  try {
    order().mark(named);  // so that a poll finds the free complete, whatever the program does next
  } catch (const DeviceError&) {
  }
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

// What OrderedDevice refuses (such as a synchronization while it knows of a capture) is the
// program's own affair: then only its call is made.
void Gpu::synchronize(const std::function<bool()>& call) {
  const ProgramCall program{call};
  try {
    order().synchronize();
    log_.add({.did = Did::passed_device});
  } catch (const DeviceError&) {
    if (!program.was_made()) call();
  }
}

void Gpu::synchronize(StreamRef stream, const std::function<bool()>& call) {
  const ProgramCall program{call};
  try {
    order().synchronize(stream);
    log_.add({.did = Did::passed_stream, .stream = stream.id()});
  } catch (const DeviceError&) {
    if (!program.was_made()) call();
  }
}

Point Gpu::mark(StreamRef stream) {
  const Point marker = order().mark(stream);
  log_.add({.did = Did::recorded, .marker = marker});
  return marker;
}

void Gpu::joined(StreamRef waiter, Point marker) {
  const ProgramCall has_waited;
  try {
    order().wait_for(waiter, marker);
    log_.add({.did = Did::waited, .stream = waiter.id(), .marker = marker});
  } catch (const DeviceError&) {  // the edge is not known: only reuse is lost
  }
}

void Gpu::passed(Point marker) {
  const ProgramCall has_waited;
  try {
    order().synchronize(marker);
    log_.add({.did = Did::passed, .marker = marker});
  } catch (const DeviceError&) {
  }
}

void Gpu::allow_peer(int peer) { device_.gpu().allow_peer(peer); }

}  // namespace millrace::interpose
