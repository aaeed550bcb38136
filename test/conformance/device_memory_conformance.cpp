#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "test/conformance/device_conformance.hpp"

using namespace millrace;
using test::Cells;
using test::DeviceUnderTest;
using test::over_every_device;

namespace {

using Bytes = std::vector<unsigned char>;

Bytes counting(std::size_t count) {
  Bytes bytes(count);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(1));
  return bytes;
}

template <typename Call>
ErrorCode code_of(Call call) {
  try {
    call();
  } catch (const DeviceError& error) {
    CHECK_FALSE(error.sticky());
    return error.code();
  }
  FAIL("the call was not refused");
  return ErrorCode::unknown;
}

void works(Device& device) {
  const StreamHandle stream = device.create_stream();
  Cells cells{device, 1000};
  cells.fill(17, stream);
  cells.fetch(stream);
  device.synchronize(stream);
  CHECK(cells.mirrored() == 17);
  device.destroy_stream(stream);
}

}  // namespace

TEST_CASE("copies of every kind and of odd sizes move the bytes") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    const StreamHandle stream = device.create_stream();
    for (const std::size_t size : {std::size_t{1}, std::size_t{4097}, std::size_t{1'000'003}}) {
      const Bytes source = counting(size);
      auto* const pinned = static_cast<unsigned char*>(device.allocate_host(size));
      auto* const also_pinned = static_cast<unsigned char*>(device.allocate_host(size));
      auto* const memory = static_cast<unsigned char*>(device.allocate(2 * size + 64));
      std::copy(source.begin(), source.end(), pinned);
      device.copy(also_pinned, pinned, size, CopyKind::host_to_host, stream);
      device.copy(memory + 3, also_pinned, size, CopyKind::host_to_device, stream);
      device.copy(memory + size + 5, memory + 3, size, CopyKind::device_to_device, stream);
      device.synchronize(stream);
      std::fill(pinned, pinned + size, static_cast<unsigned char>(0));
      device.copy(pinned, memory + size + 5, size, CopyKind::device_to_host, stream);
      device.synchronize(stream);
      CHECK(Bytes(pinned, pinned + size) == source);
      device.free(memory);
      device.free_host(pinned);
      device.free_host(also_pinned);
    }
  });
}

TEST_CASE("pageable memory may be changed when the copy from it has returned") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    const StreamHandle stream = device.create_stream();
    for (const std::size_t size : {std::size_t{100}, std::size_t{3'000'000}}) {
      Bytes source = counting(size);
      const Bytes before = source;
      void* const memory = device.allocate(size);
      device.copy(memory, source.data(), size, CopyKind::host_to_device, stream);
      std::fill(source.begin(), source.end(), static_cast<unsigned char>(0));
      Bytes result(size);
      device.copy(result.data(), memory, size, CopyKind::device_to_host, stream);
      device.synchronize(stream);
      CHECK(result == before);
      device.free(memory);
    }
  });
}

TEST_CASE("a fill reaches its bytes and no others") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    const StreamHandle stream = device.create_stream();
    auto* const memory = static_cast<unsigned char*>(device.allocate(4096));
    device.fill(memory, 1, 4096, stream);
    device.fill(memory + 5, 2, 1001, stream);
    Bytes result(4096);
    device.copy(result.data(), memory, 4096, CopyKind::device_to_host, stream);
    device.synchronize(stream);
    Bytes expected(4096, 1);
    std::fill(expected.begin() + 5, expected.begin() + 1006, static_cast<unsigned char>(2));
    CHECK(result == expected);
    device.free(memory);
  });
}

TEST_CASE("copies and fills of zero bytes change nothing") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    const StreamHandle stream = device.create_stream();
    Cells cells{device, 100};
    cells.fill(3, stream);
    device.fill(cells.address(), 4, 0, stream);
    device.copy(cells.address(), cells.address() + 50, 0, CopyKind::device_to_device, stream);
    cells.fetch(stream);
    device.synchronize(stream);
    CHECK(cells.mirrored() == 3);
  });
}

TEST_CASE("allocations do not overlap and are aligned") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    std::vector<std::unique_ptr<Cells>> cells;
    const StreamHandle stream = device.create_stream();
    for (std::size_t i = 0; i < 20; ++i) {
      cells.push_back(std::make_unique<Cells>(device, 1 + i * 7919));
      CHECK(reinterpret_cast<std::uintptr_t>(cells.back()->address()) % 256 == 0);
      cells.back()->fill(static_cast<unsigned char>(i), stream);
    }
    for (const auto& each : cells) each->fetch(stream);
    device.synchronize(stream);
    for (std::size_t i = 0; i < cells.size(); ++i)
      CHECK(cells[i]->mirrored() == static_cast<int>(i));
  });
}

TEST_CASE("a device that is out of memory reports it and stays usable") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    const MemoryInfo info = device.memory_info();
    CHECK(info.free <= info.total);
    CHECK(code_of([&] { (void)device.allocate(info.total + 1); }) == ErrorCode::out_of_memory);
    works(device);
    if (!device.has_driver_pool()) return;
    const StreamHandle stream = device.create_stream();
    CHECK(code_of([&] { (void)device.allocate_async(info.total + 1, stream); }) ==
          ErrorCode::out_of_memory);
    works(device);
  });
}

TEST_CASE("bad arguments are refused, and the device stays usable") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    const StreamHandle stream = device.create_stream();
    int variable = 0;
    CHECK(code_of([&] { device.free(&variable); }) == ErrorCode::invalid_argument);
    CHECK(code_of([&] { device.free_host(&variable); }) == ErrorCode::invalid_argument);
    CHECK(code_of([&] { device.fill(nullptr, 0, 100, stream); }) == ErrorCode::invalid_argument);
    CHECK(code_of([&] { device.copy(nullptr, &variable, 4, CopyKind::host_to_device, stream); }) ==
          ErrorCode::invalid_argument);
    works(device);
  });
}

TEST_CASE("freeing a null pointer does nothing") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    device.free(nullptr);
    device.free_host(nullptr);
    works(device);
  });
}

TEST_CASE("memory of the driver's pool is usable in the order of its stream") {
  over_every_device([](DeviceUnderTest& under_test, Device& device) {
    if (!device.has_driver_pool()) return;
    const StreamHandle stream = device.create_stream();
    auto* const pinned = static_cast<unsigned char*>(device.allocate_host(200));
    const auto open = under_test.hold(stream);
    void* const first = device.allocate_async(100'000, stream);
    device.fill(first, 1, 100'000, stream);
    device.copy(pinned, first, 100, CopyKind::device_to_host, stream);
    device.free_async(first, stream);
    void* const second = device.allocate_async(100'000, stream);
    device.fill(second, 2, 100'000, stream);
    device.copy(pinned + 100, second, 100, CopyKind::device_to_host, stream);
    device.free_async(second, stream);
    open();
    device.synchronize(stream);
    CHECK(Bytes(pinned, pinned + 100) == Bytes(100, 1));
    CHECK(Bytes(pinned + 100, pinned + 200) == Bytes(100, 2));
    device.free_host(pinned);
  });
}

TEST_CASE("the driver's pool counts what is used and reserved, and is trimmed") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    if (!device.has_driver_pool()) return;
    const StreamHandle stream = device.create_stream();
    const std::size_t before = device.pool_info().used;
    void* const memory = device.allocate_async(5'000'000, stream);
    CHECK(device.pool_info().used >= before + 5'000'000);
    CHECK(device.pool_info().reserved >= device.pool_info().used);
    device.free_async(memory, stream);
    device.synchronize(stream);
    device.trim_pool(0);
    CHECK(device.pool_info().used == before);
    CHECK(device.pool_info().used_high >= before + 5'000'000);
    CHECK(device.pool_info().reserved <= device.pool_info().reserved_high);
  });
}

TEST_CASE("calls are counted by kind, including failed calls") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    const std::uint64_t frees = device.calls(Call::free);
    const std::uint64_t all = device.calls();
    device.free(device.allocate(100));
    int variable = 0;
    CHECK_THROWS_AS(device.free(&variable), DeviceError);
    CHECK(device.calls(Call::free) == frees + 2);
    CHECK(device.calls() == all + 3);
  });
}

TEST_CASE("memory that is mapped into a range is ordinary memory, and the range grows in place") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    const std::size_t page = device.page_bytes();
    if (page == 0) return;
    const StreamHandle stream = device.create_stream();
    auto* const range = static_cast<unsigned char*>(device.reserve_range(4 * page));
    device.map(range, page);
    device.fill(range, 1, page, stream);
    device.map(range + page, 2 * page);  // while the first page is in use
    device.fill(range + page - 5, 2, page + 10, stream);
    Bytes result(3 * page);
    device.fill(range + 2 * page + 5, 3, page - 5, stream);
    device.copy(result.data(), range, 3 * page, CopyKind::device_to_host, stream);
    device.synchronize(stream);
    Bytes expected(3 * page, 1);
    std::fill(expected.begin() + static_cast<std::ptrdiff_t>(page) - 5, expected.end(),
              static_cast<unsigned char>(2));
    std::fill(expected.begin() + static_cast<std::ptrdiff_t>(2 * page) + 5, expected.end(),
              static_cast<unsigned char>(3));
    CHECK(result == expected);
    device.unmap(range + page, page);  // the pages around it stay as they are
    Bytes first(page);
    device.copy(first.data(), range, page, CopyKind::device_to_host, stream);
    device.synchronize(stream);
    CHECK(first == Bytes(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(page)));
    device.unmap(range, page);
    device.unmap(range + 2 * page, page);
    device.release_range(range, 4 * page);
  });
}

TEST_CASE("a range that cannot grow reports an error, and stays as it is") {
  over_every_device([](DeviceUnderTest&, Device& device) {
    const std::size_t page = device.page_bytes();
    if (page == 0) {
      CHECK(code_of([&] { (void)device.reserve_range(1 << 21); }) == ErrorCode::not_supported);
      return;
    }
    const std::size_t too_much = (device.memory_info().total / page + 1) * page;
    auto* const range = static_cast<unsigned char*>(device.reserve_range(too_much));
    CHECK(code_of([&] { device.map(range, too_much); }) == ErrorCode::out_of_memory);
    device.map(range, page);
    const StreamHandle stream = device.create_stream();
    device.fill(range, 1, page, stream);
    device.synchronize(stream);
    device.unmap(range, page);
    device.release_range(range, too_much);
    works(device);
  });
}
