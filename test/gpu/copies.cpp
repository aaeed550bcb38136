#include <rapidcheck.h>

#include "test/gpu/support.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr std::size_t kBytes = std::size_t{1} << 16;

/// Part of a buffer of kBytes.
struct Part {
  std::size_t offset;
  std::size_t bytes;
};

Part draw_part() {
  const auto offset = *rc::gen::inRange<std::size_t>(0, kBytes);
  return {offset, *rc::gen::inRange<std::size_t>(0, kBytes - offset + 1)};
}

}  // namespace

TEST_CASE("bytes copied to the device, within it and back are unchanged", "[gpu][touch]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  const TestMemory from{*gpu, kBytes}, to{*gpu, kBytes};
  const bool pinned = GENERATE(true, false);
  const TestMemory pinned_memory{*gpu, kBytes, Where::host};
  std::vector<std::byte> pageable(kBytes);
  std::byte* const host = pinned ? pinned_memory.at() : pageable.data();

  CHECK(rc::check("any part", [&] {
    const Part part = draw_part();
    const auto sent = drawn_bytes(part.bytes, *rc::gen::arbitrary<std::uint64_t>());
    std::copy(sent.begin(), sent.end(), host);
    gpu->copy(from.at(part.offset), host, part.bytes, CopyKind::host_to_device, stream);
    gpu->copy(to.at(part.offset), from.at(part.offset), part.bytes, CopyKind::device_to_device,
              stream);
    gpu->synchronize(stream);
    RC_ASSERT(read_back(*gpu, to.at(part.offset), part.bytes) == sent);
  }));
}

TEST_CASE("a fill sets its bytes and no others", "[gpu][touch]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  const TestMemory memory{*gpu, kBytes};
  CHECK(rc::check("any part", [&] {
    const Part part = draw_part();
    gpu->fill(memory.at(), 0, kBytes, stream);
    gpu->fill(memory.at(part.offset), 0xA5, part.bytes, stream);
    const auto read = read_back(*gpu, memory.at(), kBytes);
    for (std::size_t i = 0; i < kBytes; ++i) {
      const bool inside = i >= part.offset && i < part.offset + part.bytes;
      RC_ASSERT(read[i] == (inside ? std::byte{0xA5} : std::byte{0}));
    }
  }));
}

TEST_CASE("a copy waits for its turn on its stream", "[gpu][touch]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  const TestMemory host{*gpu, 2, Where::host};
  const TestMemory memory{*gpu, 1};
  host.host()[0] = std::byte{1};
  host.host()[1] = std::byte{0};
  HostGate gate{*gpu, stream};
  gpu->copy(memory.at(), host.at(), 1, CopyKind::host_to_device, stream);
  gpu->copy(host.at(1), memory.at(), 1, CopyKind::device_to_host, stream);
  host.host()[0] = std::byte{7};  // before the gate opens, so the copy takes it
  CHECK(host.host()[1] == std::byte{0});
  gate.open();
  gpu->synchronize(stream);
  CHECK(host.host()[1] == std::byte{7});
}
