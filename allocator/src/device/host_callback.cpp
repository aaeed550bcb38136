#include "device/host_callback.hpp"

#include "millrace/device/ordered_device.hpp"

namespace millrace {
namespace {
thread_local int depth = 0;
}

HostCallbackScope::HostCallbackScope() noexcept { ++depth; }
HostCallbackScope::~HostCallbackScope() { --depth; }

bool in_host_callback() noexcept { return depth > 0; }

}  // namespace millrace
