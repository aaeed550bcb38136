#include <chrono>

#include "test/support/catch.hpp"
#include "test/support/plain_device.hpp"
#include "test/support/sizes.hpp"

using namespace std::chrono_literals;
using namespace millrace;
using test::MiB;
using test::plain_options;

namespace {

ErrorCode code_of_call(const std::function<void()>& call) {
  try {
    call();
  } catch (const DeviceError& error) {
    return error.code();
  }
  FAIL("the call was not refused");
  return ErrorCode::unknown;
}

std::byte* reserve(VirtualDevice& device, std::size_t bytes) {
  return static_cast<std::byte*>(device.reserve_range(bytes));
}

}  // namespace

TEST_CASE("a range of addresses takes no device memory, and pages mapped into it do") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options(8 * MiB));
  std::byte* const range = reserve(device, 64 * MiB);
  CHECK(device.memory_info().free == 8 * MiB);
  device.map(range, 4 * MiB);
  device.map(range + 60 * MiB, 2 * MiB);
  CHECK(device.memory_info().free == 2 * MiB);
  CHECK(code_of_call([&] { device.map(range + 8 * MiB, 4 * MiB); }) == ErrorCode::out_of_memory);
  CHECK(code_of_call([&] { (void)device.allocate(4 * MiB); }) == ErrorCode::out_of_memory);
  device.unmap(range + 2 * MiB, 2 * MiB);
  device.map(range + 8 * MiB, 4 * MiB);
  CHECK(device.memory_info().free == 0);
}

TEST_CASE("memory that the driver's pool keeps idle can be mapped") {
  VirtualMachine machine;
  auto options = plain_options(64 * MiB);
  options.profile.pool.release_threshold = 64 * MiB;
  VirtualDevice& device = machine.add_device(options);
  const StreamHandle stream = device.create_stream();
  device.free_async(device.allocate_async(40 * MiB, stream), stream);
  device.synchronize();
  REQUIRE(device.pool_info().reserved >= 40 * MiB);
  device.map(reserve(device, 64 * MiB), 64 * MiB);
  CHECK(device.memory_info().free == 0);
}

TEST_CASE("a small device has the driver's pages, and a large device has larger ones") {
  VirtualMachine machine;
  CHECK(machine.add_device(plain_options(64 * MiB)).page_bytes() == 2 * MiB);
  auto options = plain_options(std::size_t{100} << 30);
  options.data = false;
  VirtualDevice& large = machine.add_device(options);
  CHECK(large.page_bytes() == 32 * MiB);
  std::byte* const range = reserve(large, 64 * MiB);
  CHECK(code_of_call([&] { large.map(range, 2 * MiB); }) == ErrorCode::invalid_argument);
  large.map(range + 32 * MiB, 32 * MiB);
}

TEST_CASE("mapping and unmapping take host time for each page") {
  VirtualMachine machine;
  auto options = plain_options(64 * MiB);
  options.profile.page_time = 10ns;
  options.profile.alias_time = 7ns;
  options.profile.host_time[static_cast<std::size_t>(Call::map)] = 3ns;
  VirtualDevice& device = machine.add_device(options);
  std::byte* const range = reserve(device, 64 * MiB);
  device.map(range, 8 * MiB);
  CHECK(machine.now() == 43ns);
  device.unmap(range, 4 * MiB);
  CHECK(machine.now() == 63ns);
  device.alias(range + 16 * MiB, range + 4 * MiB, 4 * MiB);
  CHECK(machine.now() == 80ns);
}

TEST_CASE("memory that is mapped where other memory was unmapped reads as zero") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  const StreamHandle stream = device.create_stream();
  std::byte* const range = reserve(device, 8 * MiB);
  device.map(range, 4 * MiB);
  device.fill(range, 7, 4 * MiB, stream);
  device.synchronize();
  device.unmap(range + 2 * MiB, 2 * MiB);
  CHECK(code_of_call([&] { device.fill(range, 1, 4 * MiB, stream); }) ==
        ErrorCode::invalid_argument);
  device.map(range + 2 * MiB, 2 * MiB);
  std::vector<unsigned char> bytes(4 * MiB, 1);
  device.copy(bytes.data(), range, 4 * MiB, CopyKind::device_to_host, stream);
  CHECK(bytes[2 * MiB - 1] == 7);
  CHECK(bytes[2 * MiB] == 0);
}

TEST_CASE("unmapping memory under work that still uses it loses the device") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  const StreamHandle stream = device.create_stream();
  std::byte* const range = reserve(device, 8 * MiB);
  device.map(range, 4 * MiB);
  Gate gate = device.enqueue_gate(stream);
  device.fill(range, 7, 4 * MiB, stream);
  device.unmap(range, 2 * MiB);
  gate.open();
  CHECK(code_of_call([&] { device.synchronize(); }) == ErrorCode::device_lost);
}

TEST_CASE("pages that are mapped at two addresses are the same memory, counted once") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options(8 * MiB));
  REQUIRE(device.can_alias());
  const StreamHandle stream = device.create_stream();
  std::byte* const range = reserve(device, 32 * MiB);
  std::byte* const other = reserve(device, 32 * MiB);
  device.map(range, 6 * MiB);
  device.fill(range, 7, 6 * MiB, stream);
  device.alias(other + 8 * MiB, range + 2 * MiB, 4 * MiB);
  CHECK(device.memory_info().free == 2 * MiB);
  device.fill(other + 10 * MiB, 9, 2 * MiB, stream);
  std::vector<unsigned char> bytes(6 * MiB);
  device.copy(bytes.data(), range, 6 * MiB, CopyKind::device_to_host, stream);
  CHECK(bytes[4 * MiB - 1] == 7);
  CHECK(bytes[4 * MiB] == 9);
  device.unmap(range, 6 * MiB);
  CHECK(device.memory_info().free == 4 * MiB);  // two of its pages are mapped elsewhere
  device.map(range + 2 * MiB, 4 * MiB);         // with other memory
  device.fill(range + 2 * MiB, 1, 4 * MiB, stream);
  device.copy(bytes.data(), other + 8 * MiB, 4 * MiB, CopyKind::device_to_host, stream);
  CHECK(bytes[0] == 7);
  CHECK(bytes[2 * MiB] == 9);
  device.unmap(other + 8 * MiB, 4 * MiB);
  CHECK(device.memory_info().free == 4 * MiB);
}

TEST_CASE("work that was enqueued before an alias finds its pages at their old address") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  const StreamHandle stream = device.create_stream();
  std::byte* const range = reserve(device, 8 * MiB);
  device.map(range, 2 * MiB);
  Gate gate = device.enqueue_gate(stream);
  device.fill(range, 7, 2 * MiB, stream);
  device.alias(range + 4 * MiB, range, 2 * MiB);
  device.fill(range + 4 * MiB, 9, MiB, stream);
  gate.open();
  device.synchronize();
  device.unmap(range, 2 * MiB);
  std::vector<unsigned char> bytes(2 * MiB);
  device.copy(bytes.data(), range + 4 * MiB, 2 * MiB, CopyKind::device_to_host, stream);
  CHECK(bytes[0] == 9);
  CHECK(bytes[MiB] == 7);
}

TEST_CASE("only whole mapped pages can be mapped a second time, and only at free addresses") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  std::byte* const range = reserve(device, 16 * MiB);
  device.map(range, 4 * MiB);
  const auto refused = [&](std::size_t to, std::size_t from, std::size_t bytes) {
    return code_of_call([&] { device.alias(range + to, range + from, bytes); }) ==
           ErrorCode::invalid_argument;
  };
  CHECK(refused(8 * MiB, 2 * MiB, 4 * MiB));
  CHECK(refused(2 * MiB, 0, 2 * MiB));
  CHECK(refused(8 * MiB, 0, MiB));
  CHECK(refused(9 * MiB, 0, 2 * MiB));
  CHECK(refused(14 * MiB, 0, 4 * MiB));
  CHECK(device.memory_info().free == device.memory_info().total - 4 * MiB);
}

TEST_CASE("a range has the same offset in the address space in every run") {
  std::vector<std::size_t> places;
  for (int run = 0; run < 2; ++run) {
    VirtualMachine machine;
    VirtualDevice& device = machine.add_device(plain_options(8 * MiB));
    std::byte* const first = reserve(device, 64 * MiB);
    std::byte* const second = reserve(device, 16 * MiB);
    CHECK(device.offset_of(first + 5) == device.offset_of(first) + 5);
    places.push_back(device.offset_of(first));
    places.push_back(device.offset_of(second));
    places.push_back(device.offset_of(device.allocate(2 * MiB)));
  }
  CHECK(places[0] + 64 * MiB <= places[1]);
  CHECK(places[2] + 2 * MiB <= places[0]);
  CHECK(std::vector(places.begin(), places.begin() + 3) ==
        std::vector(places.begin() + 3, places.end()));
}
