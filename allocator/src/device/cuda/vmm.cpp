#include "device/cuda/vmm.hpp"

#include "device/cuda/driver.hpp"
#include "device/cuda/error.hpp"
#include "millrace/device/cuda_device.hpp"

namespace millrace::cuda {
namespace {

CUdeviceptr device_pointer(const std::byte* address) {
  return reinterpret_cast<CUdeviceptr>(address);
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
                      "this GPU or its driver can not map memory (cuMemMap)"};
  }
  access_.location = properties_.location;
  access_.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
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

void VirtualMemory::allow(std::byte* address, std::size_t bytes) const {
  check(driver().cuMemSetAccess(device_pointer(address), bytes, &access_, 1), "cuMemSetAccess",
        static_cast<void*>(address), bytes);
}

void VirtualMemory::fill(std::byte* address, std::size_t bytes) const {
  std::size_t mapped = 0;
  try {
    while (mapped < bytes) {
      const PhysicalPage page = create();
      try {
        map(address + mapped, page);
      } catch (...) {
        static_cast<void>(driver().cuMemRelease(page.handle));
        throw;
      }
      mapped += page_bytes_;
      release(page);  // its mapping keeps it
    }
    allow(address, bytes);
  } catch (...) {
    if (mapped > 0) static_cast<void>(driver().cuMemUnmap(device_pointer(address), mapped));
    throw;
  }
}

void VirtualMemory::unmap(std::byte* address, std::size_t bytes) const {
  check(driver().cuMemUnmap(device_pointer(address), bytes), "cuMemUnmap",
        static_cast<void*>(address), bytes);
}

}  // namespace millrace::cuda
