// Graphs are replayed while a program runs. Neither may access memory that the other one uses.

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "millrace/memory/graph_pool.hpp"
#include "test/support/allocators.hpp"
#include "test/support/captured_graph.hpp"
#include "test/support/catch.hpp"
#include "test/support/schedules.hpp"
#include "test/support/seed.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
namespace {

/// An error that the program makes on purpose. The test must detect it.
enum class Flaw { none, edge_left_out };

/// A random program on four streams. It writes, reads and frees memory, captures graphs in three
/// pools, and launches and drops the graphs. Its work is ordered correctly, except for the flaw.
class Program {
 public:
  Program(std::uint64_t number, Policy policy, Flaw flaw)
      : random_(number * 7919 + seed()),
        flaw_(flaw),
        bench_(std::size_t{1} << 30, adversarial(number)),
        allocator_(bench_.ordered, bench_.source, std::move(policy)) {
    for (int i = 0; i < 4; ++i) streams_.emplace_back(bench_.ordered);
    for (int i = 0; i < 3; ++i) pools_.push_back(std::make_unique<Pool>(allocator_));
  }

  /// @return number of reads that saw a wrong value
  std::size_t run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const auto what = draw(40);
      if (what < 26) {
        outside();
      } else if (what < 29) {
        capture();
      } else if (what < 36) {
        launch();
      } else if (what < 38) {
        drop();
      } else if (what == 38) {
        streams_[draw(4)].mark();
      } else {
        bench_.ordered.poll();
      }
      if (step % 16 == 0) allocator_.check_invariants();
    }
    bench_.ordered.synchronize();
    std::size_t wrong = *wrong_;
    for (const auto* const list : {&graphs_, &dropped_}) {
      for (const auto& graph : *list) wrong += graph->graph.wrong_reads();
    }
    finish();
    return wrong;
  }

 private:
  struct Buffer {
    void* address;
    std::size_t bytes;
    std::size_t stream;
    std::uint64_t value = 0;
  };
  struct Pool {
    explicit Pool(CachingAllocator& allocator) : handle(allocator) {}
    GraphPool handle;
    std::size_t stream = 0;  // index of the stream of the latest launch
    bool launched = false;
  };
  struct Graph {
    Graph(VirtualDevice& device, StreamHandle origin, Pool& p)
        : graph(device, origin), pool(p.handle), of(&p) {}
    CapturedGraph graph;
    std::optional<GraphPool> pool;
    Pool* of = nullptr;
    std::vector<Buffer> outputs, used;
  };
  struct Recorded {
    std::size_t stream, event;
    Point told;
  };

  std::size_t draw(std::size_t below) { return random_() % below; }
  std::size_t size() { return (8 + draw(4) * 200 + draw(2) * 1500) * KiB; }

  void launch_outside(const Buffer& buffer, bool writes) {
    bench_.device.launch(
        {.name = writes ? "write" : "read",
         .views = {{buffer.address, buffer.bytes, writes ? Access::write : Access::read}},
         .cost = {},
         .host =
             [value = buffer.value, writes, wrong = wrong_](const KernelContext& context) {
               const auto words = context.as<std::uint64_t>(0);
               for (const std::size_t at : {std::size_t{0}, words.size() / 2, words.size() - 1}) {
                 if (writes) {
                   words[at] = value;
                 } else {
                   *wrong += words[at] == value ? 0 : 1;
                 }
               }
             },
         .cuda = {}},
        streams_[buffer.stream].handle());
  }

  [[nodiscard]] bool captured(std::size_t stream) const {
    return bench_.ordered.captured(streams_[stream].id());
  }

  void outside() {
    if (buffers_.empty() || draw(2) == 0) {
      const std::size_t stream = draw(4);
      if (captured(stream)) return;
      const std::size_t bytes = size();
      buffers_.push_back({allocator_.allocate(bytes, streams_[stream]), bytes, stream, ++values_});
      launch_outside(buffers_.back(), true);
      return;
    }
    std::swap(buffers_[draw(buffers_.size())], buffers_.back());
    const Buffer buffer = buffers_.back();
    if (!captured(buffer.stream)) launch_outside(buffer, false);
    if (draw(3) == 0) {
      if (buffers_.size() < 30) return;
    }
    allocator_.deallocate(buffer.address);
    buffers_.pop_back();
  }

  void capture() {
    Pool& pool = *pools_[draw(pools_.size())];
    std::vector<std::size_t> taking_part{draw(4)};
    if (captured(taking_part[0])) return;
    if (draw(4) == 0) pool.handle.reserve(size() * 4);
    GraphCapture announced{pool.handle, streams_[taking_part[0]]};
    auto graph = std::make_unique<Graph>(bench_.device, streams_[taking_part[0]].handle(), pool);
    std::vector<Buffer> live;
    std::vector<Recorded> recorded;
    const auto wait = [&](std::size_t stream, const Recorded& on) {
      const bool joins = std::ranges::find(taking_part, stream) == taking_part.end();
      if (joins && captured(stream)) return false;
      announced.wait(streams_[stream], on.told);
      const bool left_out = flaw_ == Flaw::edge_left_out && !joins;
      if (!left_out) graph->graph.wait(streams_[stream].handle(), on.event);
      if (joins) taking_part.push_back(stream);
      return true;
    };
    const auto record = [&](std::size_t stream) {
      return Recorded{stream, graph->graph.record(streams_[stream].handle()),
                      announced.mark(streams_[stream])};
    };
    const auto free = [&](std::size_t which) {
      std::swap(live[which], live.back());
      allocator_.deallocate(live.back().address);
      live.pop_back();
    };
    const std::size_t steps = 10 + draw(60);
    for (std::size_t step = 0; step < steps; ++step) {
      const std::size_t stream = taking_part[draw(taking_part.size())];
      const auto what = draw(20);
      if (what < 8) {
        const std::size_t bytes = size();
        live.push_back({allocator_.allocate(bytes, streams_[stream]), bytes, stream});
        graph->graph.write(streams_[stream].handle(), live.back().address, bytes);
      } else if (what < 13 && !live.empty()) {
        const Buffer& buffer = live[draw(live.size())];
        graph->graph.read(streams_[buffer.stream].handle(), buffer.address, buffer.bytes);
        if (draw(4) != 0) free(static_cast<std::size_t>(&buffer - live.data()));
      } else if (what < 14) {
        recorded.push_back(record(stream));
      } else if (what < 16 && !recorded.empty()) {
        wait(draw(4), recorded[draw(recorded.size())]);
      } else if (what < 18 && !live.empty()) {  // a read by another stream
        const Buffer& buffer = live[draw(live.size())];
        const std::size_t other = draw(4);
        if (flaw_ == Flaw::none && other != buffer.stream && wait(other, record(buffer.stream))) {
          allocator_.record_use(buffer.address, streams_[other]);
          graph->graph.read(streams_[other].handle(), buffer.address, buffer.bytes);
        }
      } else if (what == 18 && !buffers_.empty()) {  // memory from outside
        const Buffer buffer = buffers_.back();
        if (buffer.stream == stream) {
          allocator_.record_use(buffer.address, streams_[stream]);
          graph->graph.write(streams_[stream].handle(), buffer.address, buffer.bytes);
          graph->used.push_back(buffer);
          buffers_.pop_back();
        }
      } else {
        outside();
      }
    }
    graph->graph.end();
    if (draw(5) == 0) {
      for (const Buffer& buffer : graph->used) allocator_.deallocate(buffer.address);
      if (draw(2) == 0) announced.abandon();
      for (const Buffer& buffer : live) allocator_.deallocate(buffer.address);
      return;
    }
    while (live.size() > 3) free(draw(live.size()));
    announced.end();
    for (const Buffer& buffer : graph->used) {
      if (draw(2) == 0)
        allocator_.deallocate(buffer.address);  // the graph still uses it
      else
        buffers_kept_.push_back(buffer);
    }
    graph->outputs = std::move(live);
    graphs_.push_back(std::move(graph));
  }

  void launch() {
    if (graphs_.empty()) return;
    Graph& graph = *graphs_[draw(graphs_.size())];
    const std::size_t on = draw(4);
    if (captured(on)) return;
    Pool& pool = *graph.of;
    // Graphs of one pool must not run at the same time.
    if (pool.launched && pool.stream != on) streams_[on].wait_stream(streams_[pool.stream]);
    for (const Buffer& buffer : graph.used) {
      if (buffer.stream != on) streams_[on].wait_stream(streams_[buffer.stream]);
    }
    graph.graph.replay(streams_[on].handle());
    graph.pool->launched(streams_[on]);
    pool.stream = on;
    pool.launched = true;
    for (const Buffer& output : graph.outputs) {
      graph.graph.read_after(streams_[on].handle(), output.address, output.bytes);
      allocator_.record_use(output.address, streams_[on]);
    }
  }

  void drop() {
    if (graphs_.empty()) return;
    std::swap(graphs_[draw(graphs_.size())], graphs_.back());
    Graph& graph = *graphs_.back();
    for (const Buffer& output : graph.outputs) {
      allocator_.deallocate(output.address, streams_[graph.of->stream]);
    }
    const bool alone = std::ranges::none_of(
        graphs_, [&](const auto& other) { return other.get() != &graph && other->of == graph.of; });
    if (alone) {  // later graphs get a new pool
      *std::ranges::find(pools_, graph.of, &std::unique_ptr<Pool>::get) =
          std::make_unique<Pool>(allocator_);
    }
    graph.pool.reset();
    dropped_.push_back(std::move(graphs_.back()));  // its reads are checked at the end
    graphs_.pop_back();
  }

  void finish() {
    for (const auto& graph : graphs_) {
      for (const Buffer& output : graph->outputs) allocator_.deallocate(output.address);
    }
    for (const auto* const list : {&buffers_, &buffers_kept_}) {
      for (const Buffer& buffer : *list) allocator_.deallocate(buffer.address);
    }
    graphs_.clear();
    pools_.clear();
    const MemoryStatistics now = allocator_.statistics();
    CHECK(now.graph_pools.pools == 0);
    CHECK(now.live_blocks == 0);
    CHECK(now.bytes.allocated.current == 0);
    allocator_.check_invariants();
    bench_.ordered.synchronize();
    allocator_.trim();
    CHECK(allocator_.statistics().bytes.reserved.current == 0);
  }

  std::mt19937_64 random_;
  const Flaw flaw_;
  Bench bench_;
  CachingAllocator allocator_;
  std::vector<Stream> streams_;
  std::vector<std::unique_ptr<Pool>> pools_;
  std::vector<std::unique_ptr<Graph>> graphs_, dropped_;
  std::vector<Buffer> buffers_, buffers_kept_;
  std::uint64_t values_ = std::uint64_t{1} << 40;
  std::shared_ptr<std::size_t> wrong_ = std::make_shared<std::size_t>(0);
};

}  // namespace

TEST_CASE("replays and stream programs read only the values that they wrote", "[graph]") {
  for (const Policy& policy : {Policy::millrace(), Policy::torch()}) {
    for (std::uint64_t number = 1; number <= 150; ++number) {
      CAPTURE(policy.name, number);
      CHECK(Program(number, policy, Flaw::none).run(250) == 0);
    }
  }
}

TEST_CASE("an edge that is declared and not made in a graph shows in some replay", "[graph]") {
  std::size_t found = 0;
  for (std::uint64_t number = 1; number <= 40; ++number) {
    found += Program(number, Policy::millrace(), Flaw::edge_left_out).run(250) > 0 ? 1 : 0;
  }
  CHECK(found > 0);
}

}  // namespace millrace::test
