#include "millrace/streamer/capture.hpp"

#include <cstdint>
#include <map>

#include "millrace/device/thread_executor.hpp"
#include "test/gpu_calls/bench.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

class Nowhere final : public CaptureReceiver {
 public:
  bool captured(const CapturedRows&) override { return true; }
};

/// Blocks that rows are gathered into, and their sizes.
class GatheredInto final : public AllocationObserver {
 public:
  std::map<std::uintptr_t, long long> blocks;

 private:
  void allocated(const AllocationEvent& event) override {
    if (event.tag != "captured rows") return;
    blocks[reinterpret_cast<std::uintptr_t>(event.address)] =
        static_cast<long long>(event.requested);
  }
};

}  // namespace

// A gather leaves gaps between the arrays of a slot; what copies the slot reads them too.
TEST_CASE("all memory that rows are captured in on a GPU is written once when it is made") {
  for (const CaptureWay way : kCaptureWays) {
    CallBench bench;
    PinnedSource pinned_source{*bench.gpu};
    CachingAllocator pinned{bench.ordered, pinned_source, Policy::pinned()};
    ThreadExecutor executor;
    const std::vector<TableConfig> tables{{"t", 5000, 64, Pooling::sum, {"f"}}};
    EmbeddingBags bags{bench.context, tables, {}};
    Nowhere receiver;
    GatheredInto gathered;
    bench.allocator.observe(&gathered);
    const Capture capture{{bags, 0, {0}},
                          {bench.context, pinned, executor, receiver},
                          {.way = way, .slot_bytes = 200'000}};
    bench.allocator.observe(nullptr);
    std::map<std::uintptr_t, long long> filled;
    for (const fake::Call& call : fake::calls("cudaMemsetAsync")) filled[call.object] = call.value;
    INFO(to_string(way));
    CHECK(gathered.blocks.empty() == (way == CaptureWay::mapped));
    for (const auto& [address, bytes] : gathered.blocks) CHECK(filled[address] == bytes);
  }
}
