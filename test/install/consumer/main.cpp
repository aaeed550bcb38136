// With the installed package: a block freed on one stream serves another.
#include <cstdlib>
#include <iostream>

#include "millrace/config.hpp"
#include "millrace/device/stream.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "millrace/memory/buffer.hpp"
#include "millrace/memory/byte_size.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/streamer/sink_kinds.hpp"

int main() {
  const std::size_t bytes = millrace::parse_bytes("64 MiB");
  millrace::VirtualMachine machine;
  millrace::OrderedDevice device{machine.add_device()};
  const millrace::Stream main{device};
  millrace::Stream copy{device};

  millrace::DeviceSource source{device.device()};
  millrace::CachingAllocator allocator{device, source, millrace::Policy::millrace()};
  const void* freed = nullptr;
  {
    const millrace::Buffer buffer{allocator, bytes, main};
    freed = buffer.data();
  }
  copy.wait_stream(main);
  const millrace::Buffer reused{allocator, bytes, copy};

  for (const millrace::SinkKind& kind : millrace::sink_kinds()) {
    if (kind.built()) std::cout << kind.name << ' ';
  }
  std::cout << "sinks\nmillrace " << MILLRACE_VERSION << " on " << device.device().name() << ": "
            << millrace::format_bytes(allocator.statistics().bytes.reserved.peak) << " reserved\n";
  return reused.data() == freed ? EXIT_SUCCESS : EXIT_FAILURE;
}
