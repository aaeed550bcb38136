#include "process/program_device.hpp"

#include <algorithm>

namespace millrace::interpose {
namespace {

thread_local ProgramCall* current = nullptr;

}  // namespace

ProgramCall::ProgramCall(const std::function<bool()>& call) noexcept
    : call_(&call), was_made_(false) {
  current = this;
}

ProgramCall::ProgramCall() noexcept : call_(nullptr), was_made_(true) { current = this; }

ProgramCall::~ProgramCall() { current = nullptr; }

bool ProgramCall::replaces() {
  if (current == nullptr) return false;
  if (current->was_made_) return true;
  current->was_made_ = true;
  if ((*current->call_)()) return true;
  throw DeviceError{ErrorCode::unknown, "the program's call", "the program sees its error"};
}

// Numbers instead of memory. Bytes that other calls and other programs hold are not available.

std::size_t ProgramDevice::available() {
  return std::min(total_, gpu_->memory_info().free + own_.load(std::memory_order_relaxed));
}

void ProgramDevice::take(std::size_t bytes) {
  const std::size_t all = available();
  const std::lock_guard lock{mutex_};
  if (all > most_available_) most_available_ = all;
  if (bytes > all - std::min(all, used_))
    throw DeviceError{ErrorCode::out_of_memory, "allocate", "the GPU has not so much memory"};
  used_ += bytes;
}

void* ProgramDevice::place(std::size_t bytes) {
  constexpr std::uintptr_t kApart = std::uintptr_t{1} << 30;
  const std::lock_guard lock{mutex_};
  const std::uintptr_t address = next_;
  next_ += (bytes + 2 * kApart - 1) / kApart * kApart;
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

void* ProgramDevice::do_allocate(std::size_t bytes) {
  if (has_memory_) return gpu_->allocate(bytes);
  take(bytes);
  void* const address = place(bytes);
  const std::lock_guard lock{mutex_};
  sizes_[address] = bytes;
  return address;
}

void ProgramDevice::do_free(void* address) {
  if (has_memory_) return gpu_->free(address);
  const std::lock_guard lock{mutex_};
  const auto it = sizes_.find(address);
  if (it == sizes_.end()) return;
  used_ -= it->second;
  sizes_.erase(it);
}

MemoryInfo ProgramDevice::do_memory_info() {
  if (has_memory_) return gpu_->memory_info();
  const std::size_t all = available();
  const std::lock_guard lock{mutex_};
  return {all - std::min(all, used_), total_};
}

void* ProgramDevice::do_reserve_range(std::size_t bytes) {
  return has_memory_ ? gpu_->reserve_range(bytes) : place(bytes);
}

void ProgramDevice::do_release_range(void* base, std::size_t bytes) {
  if (has_memory_) gpu_->release_range(base, bytes);
}

void ProgramDevice::do_map(void* address, std::size_t bytes) {
  if (has_memory_) return gpu_->map(address, bytes);
  take(bytes);
}

void ProgramDevice::do_unmap(void* address, std::size_t bytes) {
  if (has_memory_) return gpu_->unmap(address, bytes);
  const std::lock_guard lock{mutex_};
  used_ -= aliased_.unmap(address, bytes);
}

void ProgramDevice::do_alias(void* to, void* from, std::size_t bytes) {
  if (has_memory_) return gpu_->alias(to, from, bytes);
  const std::lock_guard lock{mutex_};
  aliased_.alias(to, from, bytes);
}

void ProgramDevice::do_synchronize(StreamHandle stream) {
  if (!ProgramCall::replaces()) gpu_->synchronize(stream);
}

void ProgramDevice::do_synchronize() {
  if (!ProgramCall::replaces()) gpu_->synchronize();
}

void ProgramDevice::do_wait(StreamHandle stream, EventHandle event) {
  if (!ProgramCall::replaces()) gpu_->wait(stream, event);
}

void ProgramDevice::do_synchronize(EventHandle event) {
  if (!ProgramCall::replaces()) gpu_->synchronize(event);
}

}  // namespace millrace::interpose
