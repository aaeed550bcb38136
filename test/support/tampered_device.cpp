#include "test/support/tampered_device.hpp"

#include <stdexcept>
#include <utility>
#include <vector>

namespace millrace::test {

void* TamperedDevice::do_allocate(std::size_t bytes) {
  void* const address = device_.allocate(bytes);
  shadow_.forget(address, bytes);
  return address;
}

void TamperedDevice::do_map(void* address, std::size_t bytes) {
  device_.map(address, bytes);
  shadow_.forget(address, bytes);
}

void* TamperedDevice::do_allocate_async(std::size_t bytes, StreamHandle stream) {
  void* const address = device_.allocate_async(bytes, stream);
  shadow_.forget(address, bytes);
  return address;
}

void TamperedDevice::do_copy(void* to, const void* from, std::size_t bytes, CopyKind kind,
                             StreamHandle stream) {
  // The stream `offload` copies data to the device that it has copied to the host before.
  const std::string name = stream_name(stream);
  if (kind != CopyKind::host_to_device || name.empty() || name == "offload") {
    if (kind != CopyKind::device_to_host) shadow_.forget(to, bytes);
    return device_.copy(to, from, bytes, kind, stream);
  }
  const std::uint64_t write = shadow_.write(to, bytes);
  void* const source = const_cast<void*>(from);  // host memory, which is filled here
  if (host_write_) host_write_(source, bytes);
  ShadowMemory::fill({static_cast<std::byte*>(source), bytes}, write);
  device_.copy(to, from, bytes, kind, stream);
}

void TamperedDevice::do_fill(void* address, unsigned char value, std::size_t bytes,
                             StreamHandle stream) {
  shadow_.forget(address, bytes);
  device_.fill(address, value, bytes, stream);
}

void TamperedDevice::do_launch(Operation operation, StreamHandle stream) {
  if (operation.host) throw std::logic_error{"a tampered device gives kernels their data itself"};
  struct Use {
    std::vector<ShadowMemory::Part> expected;
    std::uint64_t write = 0;
  };
  std::vector<Use> uses(operation.views.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const View& view = operation.views[i];
    if (view.access != Access::write) uses[i].expected = shadow_.read(view.address, view.bytes);
  }
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const View& view = operation.views[i];
    if (view.access != Access::read) uses[i].write = shadow_.write(view.address, view.bytes);
  }
  operation.host = [uses = std::move(uses), found = state_,
                    name = operation.name](const KernelContext& memory) {
    for (std::size_t i = 0; i < uses.size(); ++i) {
      for (const ShadowMemory::Part& part : uses[i].expected) {
        ++found->checked;
        if (ShadowMemory::holds(memory.bytes(i), part)) continue;
        if (found->corrupted++ == 0) found->first = name;
      }
    }
    for (std::size_t i = 0; i < uses.size(); ++i) {
      if (uses[i].write != 0) ShadowMemory::fill(memory.bytes(i), uses[i].write);
    }
  };
  device_.launch(std::move(operation), stream);
}

}  // namespace millrace::test
