#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <numeric>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "test/support/catch.hpp"
#include "test/support/plain_device.hpp"
#include "test/support/sizes.hpp"

using namespace std::chrono_literals;
using namespace millrace;
using Catch::Matchers::ContainsSubstring;
using test::GiB;
using test::MiB;
using test::plain_options;

namespace {

template <typename Body>
bool dies(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

std::size_t resident_bytes() {
  std::size_t total = 0;
  std::size_t resident = 0;
  std::ifstream{"/proc/self/statm"} >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("the host cannot touch device memory") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  volatile char* const memory = static_cast<char*>(device.allocate(2 * MiB));
  CHECK(dies([&] { (void)memory[0]; }));
  CHECK(dies([&] { memory[2 * MiB - 1] = 1; }));
  CHECK_FALSE(dies([] {}));
}

TEST_CASE("a kernel computes on its views, and copies move the result") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  const StreamHandle stream = device.create_stream();
  auto* const pinned = static_cast<float*>(device.allocate_host(1000 * sizeof(float)));
  std::iota(pinned, pinned + 1000, 0.0F);
  void* const memory = device.allocate(1000 * sizeof(float));
  device.copy(memory, pinned, 1000 * sizeof(float), CopyKind::host_to_device, stream);
  Operation square;
  square.name = "square";
  square.views = {{memory, 1000 * sizeof(float), Access::read_write}};
  square.host = [](const KernelContext& context) {
    for (float& value : context.as<float>(0)) value *= value;
  };
  device.launch(square, stream);
  std::vector<float> result(1000);
  device.copy(result.data(), memory, 1000 * sizeof(float), CopyKind::device_to_host, stream);
  device.synchronize(stream);
  CHECK(result[3] == 9);
  CHECK(result[999] == 998001);
}

TEST_CASE("memory that is allocated where other memory was freed reads as zero") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  const StreamHandle stream = device.create_stream();
  void* const first = device.allocate(2 * MiB);
  device.fill(first, 7, 2 * MiB, stream);
  device.synchronize();
  device.free(first);
  void* const second = device.allocate(2 * MiB);
  REQUIRE(second == first);
  std::vector<unsigned char> bytes(2 * MiB, 1);
  device.copy(bytes.data(), second, 2 * MiB, CopyKind::device_to_host, stream);
  CHECK(bytes == std::vector<unsigned char>(2 * MiB, 0));
}

TEST_CASE("without data a footprint of 100 GiB takes no host memory") {
  const std::size_t before = resident_bytes();
  VirtualMachine machine;
  auto options = plain_options(std::size_t{120} << 30);
  options.data = false;
  VirtualDevice& device = machine.add_device(options);
  const StreamHandle stream = device.create_stream();
  void* const memory = device.allocate(std::size_t{100} << 30);
  void* const pinned = device.allocate_host(std::size_t{10} << 30);
  device.copy(memory, pinned, std::size_t{10} << 30, CopyKind::host_to_device, stream);
  device.fill(memory, 1, std::size_t{100} << 30, stream);
  Operation kernel;
  kernel.views = {{memory, std::size_t{100} << 30, Access::read_write}};
  bool ran = false;
  kernel.host = [&](const KernelContext&) { ran = true; };
  device.launch(kernel, stream);
  device.synchronize();
  CHECK_FALSE(ran);
  CHECK(resident_bytes() < before + 16 * MiB);
}

TEST_CASE("the driver allocates in its granularity until the device is full") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options(8 * MiB));
  void* const one = device.allocate(1);
  CHECK(device.memory_info().free == 6 * MiB);
  CHECK(device.memory_info().total == 8 * MiB);
  void* const rest = device.allocate(6 * MiB);
  CHECK_THROWS_WITH(device.allocate(1), "allocate: out of memory: asked for 1 bytes, 0 are free");
  device.free(one);
  CHECK_NOTHROW(device.free(device.allocate(2 * MiB)));
  device.free(rest);
  CHECK(device.memory_info().free == 8 * MiB);
}

TEST_CASE("the lowest hole that fits is taken, so addresses are the same in every run") {
  const auto offsets = [] {
    VirtualMachine machine;
    VirtualDevice& device = machine.add_device(plain_options(64 * MiB));
    void* const a = device.allocate(4 * MiB);
    void* const b = device.allocate(2 * MiB);
    void* const c = device.allocate(6 * MiB);
    device.free(a);
    void* const d = device.allocate(6 * MiB);
    void* const e = device.allocate(2 * MiB);
    return std::vector<std::size_t>{device.offset_of(b), device.offset_of(c), device.offset_of(d),
                                    device.offset_of(e)};
  };
  CHECK(offsets() == std::vector<std::size_t>{4 * MiB, 6 * MiB, 12 * MiB, 0});
  CHECK(offsets() == offsets());
}

TEST_CASE("a free waits for the device unless the profile says otherwise") {
  auto options = plain_options();
  options.profile.free_synchronizes = GENERATE(true, false);
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(options);
  void* const memory = device.allocate(MiB);
  device.launch(test::fixed_kernel("k", 100ns), device.create_stream());
  device.free(memory);
  CHECK(machine.now() == (options.profile.free_synchronizes ? 100ns : 0ns));
}

TEST_CASE("work that reaches freed memory loses the device, and later errors are sticky") {
  auto options = plain_options();
  options.profile.free_synchronizes = false;
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(options);
  void* const memory = device.allocate(MiB);
  const StreamHandle stream = device.create_stream();
  Gate gate = device.enqueue_gate(stream);
  device.fill(memory, 1, 100, stream);
  device.free(memory);
  gate.open();
  CHECK_THROWS_WITH(device.synchronize(stream), ContainsSubstring("device lost: fill on stream") &&
                                                    ContainsSubstring("freed before it ran"));
  try {
    (void)device.create_stream();
    FAIL("a lost device took a call");
  } catch (const DeviceError& error) {
    CHECK(error.sticky());
  }
}

TEST_CASE("a kernel that throws loses the device") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  Operation broken;
  broken.name = "gather";
  broken.host = [](const KernelContext&) { throw std::out_of_range("row 9 of 4"); };
  const StreamHandle stream = device.create_stream();
  device.launch(broken, stream);
  CHECK_THROWS_WITH(device.synchronize(stream),
                    ContainsSubstring("gather") && ContainsSubstring("row 9 of 4"));
}

TEST_CASE("memory of one device is copied to another") {
  VirtualMachine machine;
  VirtualDevice& one = machine.add_device(plain_options());
  VirtualDevice& two = machine.add_device(plain_options());
  void* const from = one.allocate(MiB);
  void* const to = two.allocate(MiB);
  const StreamHandle stream = one.create_stream();
  one.fill(from, 9, 100, stream);
  one.copy(to, from, 100, CopyKind::device_to_device, stream);
  std::vector<unsigned char> bytes(100);
  one.copy(bytes.data(), to, 100, CopyKind::device_to_host, stream);
  CHECK(bytes == std::vector<unsigned char>(100, 9));
}

TEST_CASE("a kernel reads and writes pinned memory that it declares") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  auto* const pinned = static_cast<int*>(device.allocate_host(64));
  pinned[1] = 41;
  Operation increment;
  increment.views = {{pinned, 64, Access::read_write}, {nullptr, 0, Access::read}};
  increment.host = [](const KernelContext& context) {
    ++context.as<int>(0)[1];
    CHECK(context.bytes(1).empty());
  };
  device.launch(increment, device.create_stream());
  device.synchronize();
  CHECK(pinned[1] == 42);
}

TEST_CASE("under AddressSanitizer a kernel may access only its views") {
#if defined(__SANITIZE_ADDRESS__)
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  auto* const memory = static_cast<std::byte*>(device.allocate(MiB));
  const StreamHandle stream = device.create_stream();
  bool inside = true;
  bool before = false;
  bool after = false;
  Operation kernel;
  kernel.views = {{memory + 64, 128, Access::read}};
  kernel.host = [&](const KernelContext& context) {
    const auto view = context.bytes(0);
    inside = __asan_region_is_poisoned(view.data(), view.size()) != nullptr;
    before = __asan_address_is_poisoned(view.data() - 1) != 0;
    after = __asan_address_is_poisoned(view.data() + view.size()) != 0;
  };
  device.launch(kernel, stream);
  device.synchronize();
  CHECK_FALSE(inside);
  CHECK(before);
  CHECK(after);
#else
  SKIP("built without AddressSanitizer");
#endif
}

TEST_CASE("addresses that a device left allocated are not poisoned later") {
#if defined(__SANITIZE_ADDRESS__)
  std::span<std::byte> seen;
  {
    VirtualMachine machine;
    VirtualDevice& device = machine.add_device(plain_options());
    Operation kernel;
    kernel.views = {{device.allocate(MiB), MiB, Access::read}};
    kernel.host = [&](const KernelContext& context) { seen = context.bytes(0); };
    device.launch(kernel, device.create_stream());
  }
  REQUIRE(seen.size() == MiB);
  CHECK(__asan_region_is_poisoned(seen.data(), seen.size()) == nullptr);
#else
  SKIP("built without AddressSanitizer");
#endif
}
