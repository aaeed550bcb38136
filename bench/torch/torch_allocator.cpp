#include "torch/torch_allocator.hpp"

#include <dlfcn.h>

#include <stdexcept>

namespace millrace {
namespace {

const MillraceTorch* load(int ordinal, const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error{::dlerror()};
  using Entry = const MillraceTorch*(int);
  auto* const entry = reinterpret_cast<Entry*>(::dlsym(handle, "millrace_torch"));
  if (entry == nullptr) throw std::runtime_error{library + " has no function millrace_torch"};
  const MillraceTorch* const torch = entry(ordinal);
  if (torch == nullptr) throw std::runtime_error{"PyTorch refused the device"};
  return torch;
}

}  // namespace

TorchAllocator::TorchAllocator(OrderedDevice& device, int ordinal, const std::string& library)
    : device_(device), torch_(load(ordinal, library)) {
  torch_->empty_cache();
  torch_->reset_peaks();
}

TorchAllocator::~TorchAllocator() { torch_->empty_cache(); }

std::string TorchAllocator::version() const { return torch_->version; }

void* TorchAllocator::allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag) {
  if (bytes == 0) return nullptr;
  void* const memory = torch_->allocate(bytes, owner.handle().value);
  if (memory == nullptr) throw std::runtime_error{torch_->error()};
  ++allocations_;
  if (first_user.handle() != owner.handle()) record_use(memory, first_user);
  return memory;
}

void TorchAllocator::deallocate(void* address) {
  if (address == nullptr) return;
  ++frees_;
  torch_->free(address);
}

void TorchAllocator::deallocate(void* address, StreamRef stream) {
  if (address == nullptr) return;
  record_use(address, stream);
  deallocate(address);
}

void TorchAllocator::deallocate(void* address, Point) { deallocate(address); }

void TorchAllocator::record_use(void* address, StreamRef stream) {
  torch_->record_stream(address, stream.handle().value);
}

void TorchAllocator::transfer(void*, StreamRef) {
  throw std::logic_error{"PyTorch's blocks keep their stream"};
}

std::size_t TorchAllocator::trim(std::size_t) {
  const std::size_t before = statistics().bytes.reserved.current;
  torch_->empty_cache();
  return before - statistics().bytes.reserved.current;
}

MemoryStatistics TorchAllocator::statistics() {
  MillraceTorchStatistics torch{};
  torch_->statistics(&torch);
  MemoryStatistics statistics;
  statistics.bytes.requested = {torch.requested, torch.requested_peak};
  statistics.bytes.allocated = {torch.allocated, torch.allocated_peak};
  statistics.bytes.active = {torch.active, torch.active_peak};
  statistics.bytes.reserved = {torch.reserved, torch.reserved_peak};
  statistics.bytes.cached = {torch.reserved - torch.active, 0};
  statistics.segments = torch.segments;
  statistics.counts.allocations = allocations_;
  statistics.counts.frees = frees_;
  return statistics;
}

void TorchAllocator::observe(AllocationObserver* observer) {
  if (observer != nullptr) throw std::logic_error{"PyTorch tells no observer of ours"};
}

}  // namespace millrace
