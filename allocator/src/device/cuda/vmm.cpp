#include "device/cuda/vmm.hpp"

#include "device/cuda/driver.hpp"
#include "device/cuda/error.hpp"
#include "millrace/device/cuda_device.hpp"

namespace millrace::cuda {
namespace {

CUdeviceptr device_pointer(const std::byte* address) {
  return reinterpret_cast<CUdeviceptr>(address);
}

CUmemAccessDesc access_of(int ordinal) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = ordinal;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

CUmemAllocationProp properties_of(int ordinal) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = ordinal;
  return properties;
}

}  // namespace

std::size_t page_bytes(int ordinal) {
  const CUmemAllocationProp properties = properties_of(ordinal);
  std::size_t bytes = 0;
  check(
      driver().cuMemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
      "cuMemGetAllocationGranularity", ordinal);
  return bytes;
}

VirtualMemory::VirtualMemory(int ordinal, std::size_t page) : properties_(properties_of(ordinal)) {
  if (!cuda_device_info(ordinal).virtual_memory) {
    throw DeviceError{ErrorCode::not_supported, "cuda:" + std::to_string(ordinal),
                      "this GPU or its driver cannot map memory (cuMemMap)"};
  }
  access_.push_back(access_of(ordinal));
  page_bytes_ = page != 0 ? page : cuda::page_bytes(ordinal);
}

std::byte* VirtualMemory::reserve(std::size_t bytes) const {
  CUdeviceptr range = 0;
  check(driver().cuMemAddressReserve(&range, bytes, 0, 0, 0), "cuMemAddressReserve", bytes);
  return reinterpret_cast<std::byte*>(range);
}

void VirtualMemory::free(std::byte* range, std::size_t bytes) const {
  check(driver().cuMemAddressFree(device_pointer(range), bytes), "cuMemAddressFree",
        static_cast<void*>(range), bytes);
}

PhysicalPage VirtualMemory::create() const {
  PhysicalPage page;
  check(driver().cuMemCreate(&page.handle, page_bytes_, &properties_, 0), "cuMemCreate",
        page_bytes_);
  return page;
}

void VirtualMemory::release(PhysicalPage page) const {
  check(driver().cuMemRelease(page.handle), "cuMemRelease", page.handle);
}

void VirtualMemory::map(std::byte* address, PhysicalPage page) const {
  check(driver().cuMemMap(device_pointer(address), page_bytes_, 0, page.handle, 0), "cuMemMap",
        static_cast<void*>(address), page_bytes_, page.handle);
}

void VirtualMemory::set_access(std::byte* address, std::size_t bytes, const CUmemAccessDesc* to,
                               std::size_t count) const {
  check(driver().cuMemSetAccess(device_pointer(address), bytes, to, count), "cuMemSetAccess",
        static_cast<void*>(address), bytes, count);
}

void VirtualMemory::allow(std::byte* address, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  set_access(address, bytes, access_.data(), access_.size());
  for (std::size_t at = 0; at < bytes; at += page_bytes_) allowed_.insert(address + at);
}

void VirtualMemory::allow_peer(int ordinal) {
  const CUmemAccessDesc access = access_of(ordinal);
  const std::lock_guard lock{mutex_};
  for (const CUmemAccessDesc& known : access_) {
    if (known.location.id == ordinal) return;
  }
  for (auto page = allowed_.begin(); page != allowed_.end();) {
    std::byte* const first = *page;
    std::size_t bytes = 0;
    for (; page != allowed_.end() && *page == first + bytes; ++page) bytes += page_bytes_;
    set_access(first, bytes, &access, 1);
  }
  access_.push_back(access);
}

// Maps the pages that `next_page` returns, in this order. A mapping keeps its page alive, so the
// handle is released at once.
template <typename NextPage>
void VirtualMemory::map_all(std::byte* address, std::size_t bytes, const NextPage& next_page) {
  std::size_t mapped = 0;
  try {
    while (mapped < bytes) {
      const PhysicalPage page = next_page(mapped);
      try {
        map(address + mapped, page);
      } catch (...) {
        static_cast<void>(driver().cuMemRelease(page.handle));
        throw;
      }
      mapped += page_bytes_;
      release(page);
    }
    allow(address, bytes);
  } catch (...) {
    if (mapped > 0) static_cast<void>(driver().cuMemUnmap(device_pointer(address), mapped));
    throw;
  }
}

void VirtualMemory::fill(std::byte* address, std::size_t bytes) {
  map_all(address, bytes, [&](std::size_t) { return create(); });
}

// The driver knows which page is mapped at an address. The handle is one more reference to it.
PhysicalPage VirtualMemory::page_at(std::byte* address) const {
  PhysicalPage page;
  check(driver().cuMemRetainAllocationHandle(&page.handle, address), "cuMemRetainAllocationHandle",
        static_cast<void*>(address));
  return page;
}

void VirtualMemory::alias(std::byte* to, std::byte* from, std::size_t bytes) {
  map_all(to, bytes, [&](std::size_t at) { return page_at(from + at); });
}

void VirtualMemory::unmap(std::byte* address, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  check(driver().cuMemUnmap(device_pointer(address), bytes), "cuMemUnmap",
        static_cast<void*>(address), bytes);
  allowed_.erase(allowed_.lower_bound(address), allowed_.lower_bound(address + bytes));
}

}  // namespace millrace::cuda
