// A virtual machine with queued work lives until the program ends. The program must end by itself
// with exit code 0.  static_machine namespace|function|thread
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>

#include "millrace/device/stream.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "millrace/memory/buffer.hpp"
#include "millrace/memory/caching_allocator.hpp"

namespace {

/// Is destroyed after the machine. Ends the program with an error unless the machine ran its work.
struct Judge {
  ~Judge() {
    if (!*ran || !*called) std::_Exit(EXIT_FAILURE);
  }
  std::shared_ptr<bool> ran = std::make_shared<bool>(false);
  std::shared_ptr<bool> called = std::make_shared<bool>(false);
};

Judge judge;

/// Enqueues work that a bare machine must finish by itself.
void enqueue(millrace::VirtualMachine& machine) {
  millrace::VirtualDevice& device = machine.add_device();
  const millrace::StreamHandle stream = device.create_stream();
  device.launch({.name = "work",
                 .cost = {.fixed = std::chrono::milliseconds{5}},
                 .host = [ran = judge.ran](const auto&) { *ran = true; }},
                stream);
  device.callback(stream, [called = judge.called] { *called = true; });
}

struct BareMachine {
  BareMachine() { enqueue(machine); }
  millrace::VirtualMachine machine;
};

/// A machine in a program whose whole state is static.
struct World {
  World() { const millrace::Buffer buffer{allocator, 1 << 20, main}; }

  millrace::VirtualMachine machine;
  millrace::OrderedDevice device{machine.add_device()};
  millrace::Stream main{device};
  millrace::DeviceSource source{device.device()};
  millrace::CachingAllocator allocator{device, source, millrace::Policy::millrace()};
};

std::unique_ptr<BareMachine> in_namespace;

void in_function() { static BareMachine bare; }

}  // namespace

int main(int, char** arguments) {
  const std::string_view where = arguments[1] == nullptr ? "" : arguments[1];
  if (where == "namespace") {
    in_namespace = std::make_unique<BareMachine>();
  } else if (where == "function") {
    in_function();
    static World world;
  } else if (where == "thread") {  // has ended when the machine is destroyed
    std::thread{[] { in_function(); }}.join();
  } else {
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
