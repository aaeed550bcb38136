#include <chrono>

#include "test/support/catch.hpp"
#include "test/support/plain_device.hpp"

using namespace std::chrono_literals;
using namespace millrace;
using test::plain_options;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

ErrorCode code_of(const std::function<void()>& call) {
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

TEST_CASE("addresses take no memory of the device, what is mapped there does") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options(8 * kMiB));
  std::byte* const range = reserve(device, 64 * kMiB);
  CHECK(device.memory_info().free == 8 * kMiB);
  device.map(range, 4 * kMiB);
  device.map(range + 60 * kMiB, 2 * kMiB);
  CHECK(device.memory_info().free == 2 * kMiB);
  CHECK(code_of([&] { device.map(range + 8 * kMiB, 4 * kMiB); }) == ErrorCode::out_of_memory);
  CHECK(code_of([&] { (void)device.allocate(4 * kMiB); }) == ErrorCode::out_of_memory);
  device.unmap(range + 2 * kMiB, 2 * kMiB);
  device.map(range + 8 * kMiB, 4 * kMiB);
  CHECK(device.memory_info().free == 0);
}

TEST_CASE("memory that the driver's pool keeps idle is there to be mapped") {
  VirtualMachine machine;
  auto options = plain_options(64 * kMiB);
  options.profile.pool.release_threshold = 64 * kMiB;
  VirtualDevice& device = machine.add_device(options);
  const StreamHandle stream = device.create_stream();
  device.free_async(device.allocate_async(40 * kMiB, stream), stream);
  device.synchronize();
  REQUIRE(device.pool_info().reserved >= 40 * kMiB);
  device.map(reserve(device, 64 * kMiB), 64 * kMiB);
  CHECK(device.memory_info().free == 0);
}

TEST_CASE("pages are those of the driver on a small device and larger on a large one") {
  VirtualMachine machine;
  CHECK(machine.add_device(plain_options(64 * kMiB)).page_bytes() == 2 * kMiB);
  auto options = plain_options(std::size_t{100} << 30);
  options.data = false;
  VirtualDevice& large = machine.add_device(options);
  CHECK(large.page_bytes() == 32 * kMiB);
  std::byte* const range = reserve(large, 64 * kMiB);
  CHECK(code_of([&] { large.map(range, 2 * kMiB); }) == ErrorCode::invalid_argument);
  large.map(range + 32 * kMiB, 32 * kMiB);
}

TEST_CASE("mapping and unmapping take the host time of their pages") {
  VirtualMachine machine;
  auto options = plain_options(64 * kMiB);
  options.profile.page_time = 10ns;
  options.profile.host_time[static_cast<std::size_t>(Call::map)] = 3ns;
  VirtualDevice& device = machine.add_device(options);
  std::byte* const range = reserve(device, 64 * kMiB);
  device.map(range, 8 * kMiB);
  CHECK(machine.now() == 43ns);
  device.unmap(range, 4 * kMiB);
  CHECK(machine.now() == 63ns);
}

TEST_CASE("memory that was unmapped is gone: what is mapped there next reads as zero") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  const StreamHandle stream = device.create_stream();
  std::byte* const range = reserve(device, 8 * kMiB);
  device.map(range, 4 * kMiB);
  device.fill(range, 7, 4 * kMiB, stream);
  device.synchronize();
  device.unmap(range + 2 * kMiB, 2 * kMiB);
  CHECK(code_of([&] { device.fill(range, 1, 4 * kMiB, stream); }) == ErrorCode::invalid_argument);
  device.map(range + 2 * kMiB, 2 * kMiB);
  std::vector<unsigned char> bytes(4 * kMiB, 1);
  device.copy(bytes.data(), range, 4 * kMiB, CopyKind::device_to_host, stream);
  CHECK(bytes[2 * kMiB - 1] == 7);
  CHECK(bytes[2 * kMiB] == 0);
}

TEST_CASE("memory that is unmapped under work that still uses it loses the device") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  const StreamHandle stream = device.create_stream();
  std::byte* const range = reserve(device, 8 * kMiB);
  device.map(range, 4 * kMiB);
  Gate gate = device.enqueue_gate(stream);
  device.fill(range, 7, 4 * kMiB, stream);
  device.unmap(range, 2 * kMiB);
  gate.open();
  CHECK(code_of([&] { device.synchronize(); }) == ErrorCode::device_lost);
}

TEST_CASE("a range lies at the same place of the address space in every run") {
  std::vector<std::size_t> places;
  for (int run = 0; run < 2; ++run) {
    VirtualMachine machine;
    VirtualDevice& device = machine.add_device(plain_options(8 * kMiB));
    std::byte* const first = reserve(device, 64 * kMiB);
    std::byte* const second = reserve(device, 16 * kMiB);
    CHECK(device.offset_of(first + 5) == device.offset_of(first) + 5);
    places.push_back(device.offset_of(first));
    places.push_back(device.offset_of(second));
    places.push_back(device.offset_of(device.allocate(2 * kMiB)));
  }
  CHECK(places[0] + 64 * kMiB <= places[1]);
  CHECK(places[2] + 2 * kMiB <= places[0]);
  CHECK(std::vector(places.begin(), places.begin() + 3) ==
        std::vector(places.begin() + 3, places.end()));
}
