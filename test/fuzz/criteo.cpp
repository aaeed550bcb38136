// The reader of Criteo's lines: for any bytes, it returns consistent batches or throws a DataError.
#include <cstddef>
#include <cstdint>
#include <string>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/pipeline/data/criteo_source.hpp"
#include "test/fuzz/support/require.hpp"

using namespace millrace;
using fuzz::require;

namespace {

struct Host {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device({.memory_bytes = std::size_t{1} << 24});
  OrderedDevice ordered{device};
  Stream copy{ordered};
  PinnedSource source{device};
  CachingAllocator pinned{ordered, source, Policy::pinned()};
};

void read_all(Host& host, const ByteSource& bytes, const CriteoSettings& settings) {
  CriteoSource source{bytes, settings, {host.pinned, host.copy}};
  try {
    std::size_t examples = 0;
    while (const auto batch = source.next()) {
      check_ids(batch->contents(), source.schema());
      require(batch->batch_size() > 0 && batch->batch_size() <= settings.batch_size,
              "a batch has 1 to batch_size examples");
      examples += batch->batch_size();
    }
    source.next_epoch();
    std::size_t again = 0;
    while (const auto batch = source.next()) again += batch->batch_size();
    require(examples == again, "every epoch has the same examples");
  } catch (const DataError&) {
    require(source.malformed().count > settings.malformed.limit, "only too many lines are refused");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto* const host = new Host;  // outlives every input
  const ByteSource bytes = text_source("input", {data, data + size});
  read_all(*host, bytes, {.batch_size = 3, .rows = {10}, .malformed = {.limit = 3}});
  read_all(*host, bytes,
           {.batch_size = 2, .rows = {1}, .shuffle = 1, .shuffle_window = 3, .malformed = {1000}});
  host->copy.mark();  // after that the batches' pinned memory can be reused
  host->copy.synchronize();
  return 0;
}
