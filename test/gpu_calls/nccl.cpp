#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include "collective/nccl/communicators.hpp"
#include "millrace/pipeline/collective/nccl_group.hpp"
#include "test/gpu_calls/bench.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;
using collective::NcclApi;
using collective::NcclCommunicators;

namespace {

const NcclApi& stand_in_nccl() {
  setenv("MILLRACE_NCCL", "", 1);
  const NcclApi* const api = NcclApi::find();
  REQUIRE(api != nullptr);
  return *api;
}

/// The only rank of a group, on the second GPU.
struct Rank {
  explicit Rank(bool ordered_launches = true) {
    api.ordered_launches = ordered_launches;
    communicators.emplace(api, *gpu, 1, *alone, std::chrono::minutes{1});
  }
  ~Rank() {
    communicators.reset();
    for (const StreamHandle stream : streams) gpu->destroy_stream(stream);
  }

  StreamHandle new_stream() { return streams.emplace_back(gpu->create_stream()); }
  void all_reduce(StreamHandle stream) {
    communicators->launch(
        {.name = "all-reduce"}, stream, [](const NcclApi& nccl, NcclApi::Comm comm, void* native) {
          nccl.check(nccl.all_reduce(nullptr, nullptr, 1, 0, 0, comm, native), "ncclAllReduce");
        });
  }

  NcclApi api = stand_in_nccl();
  std::unique_ptr<CudaDevice> gpu = stand_in(1);
  std::unique_ptr<Rendezvous> alone = Rendezvous::over_tcp("localhost", 0, 0, 1, {});
  std::vector<StreamHandle> streams;
  std::optional<NcclCommunicators> communicators;
};

std::vector<long long> numbers_in(const std::string& function) {
  std::vector<long long> numbers;
  for (const fake::Call& call : fake::calls(function)) numbers.push_back(call.value);
  return numbers;
}

}  // namespace

TEST_CASE("communicators are destroyed in the order in which they were made") {
  {
    Rank rank;
    for (int i = 0; i < 6; ++i) static_cast<void>(rank.new_stream());
    std::vector<StreamHandle> shuffled = rank.streams;
    std::ranges::sort(shuffled, [](StreamHandle a, StreamHandle b) { return a.value > b.value; });
    for (const StreamHandle stream : shuffled) rank.all_reduce(stream);
  }
  const auto made = numbers_in("ncclCommInitRank");
  CHECK(made.size() == 6);
  CHECK(numbers_in("ncclCommDestroy") == made);
}

TEST_CASE("a stream with the handle of a destroyed stream gets its own communicator") {
  Rank rank;
  const StreamHandle first = rank.gpu->create_stream();
  rank.all_reduce(first);
  rank.all_reduce(first);
  CHECK(fake::calls("ncclCommInitRank").size() == 1);
  rank.gpu->destroy_stream(first);
  const StreamHandle second = rank.new_stream();
  REQUIRE(second.value == first.value);
  rank.all_reduce(second);
  CHECK(fake::calls("ncclCommInitRank").size() == 2);
}

TEST_CASE("without NCCL's own order, an operation waits for the previous one on another stream") {
  std::mt19937_64 random{seed()};
  for (const bool ordered : {false, true}) {
    Rank rank{ordered};
    for (int i = 0; i < 4; ++i) static_cast<void>(rank.new_stream());
    for (const StreamHandle stream : rank.streams) rank.all_reduce(stream);
    fake::set_busy(true);  // no later operation is complete
    std::vector<std::size_t> order;
    for (int i = 0; i < 40; ++i) order.push_back(random() % rank.streams.size());
    for (const std::size_t i : order) rank.all_reduce(rank.streams[i]);

    // Finds for each operation its stream and the events for which the stream waits since the
    // previous operation. Also finds the event that was recorded after each operation.
    std::uintptr_t last_stream = 0;
    long long last_event = 0;
    std::size_t operations = 0, crossed = 0;
    std::map<std::uintptr_t, std::set<long long>> awaited;
    for (const fake::Call& call : fake::calls()) {
      if (call.name == "cudaStreamWaitEvent") awaited[call.object].insert(call.value);
      if (call.name == "cudaEventRecord" && call.object == last_stream) last_event = call.value;
      if (call.name != "all-reduce on") continue;
      if (++operations > rank.streams.size() && last_stream != call.object) {
        ++crossed;
        CHECK(awaited[call.object].contains(last_event) == !ordered);
      }
      awaited.clear();
      last_stream = call.object;
    }
    CHECK(operations == order.size() + rank.streams.size());
    CHECK(crossed > 10);
    fake::set_busy(false);
  }
}

TEST_CASE("a communicator is not aborted under a thread that is about to use it") {
  Rank rank;
  const StreamHandle used = rank.new_stream(), idle = rank.new_stream();
  rank.all_reduce(used);
  rank.all_reduce(idle);
  fake::on("ncclGroupStart", [&] {
    std::thread{[&] { rank.communicators->fail("another thread says so"); }}.join();
  });
  CHECK_THROWS_AS(rank.all_reduce(used), CollectiveError);
  CHECK(fake::calls("use of a communicator that is gone").empty());
  CHECK(fake::calls("ncclCommAbort").size() == 2);
  fake::on("ncclGroupStart", nullptr);
  CHECK_THROWS_AS(rank.all_reduce(idle), CollectiveError);
  CHECK(fake::calls("use of a communicator that is gone").empty());
}

TEST_CASE("a call that hangs in NCCL is ended by aborting its communicator") {
  Rank rank;
  const StreamHandle stream = rank.new_stream();
  rank.all_reduce(stream);
  std::atomic<bool> aborted = false;
  fake::on("ncclCommAbort", [&] { aborted = true; });
  fake::on("ncclGroupEnd", [&] {
    std::thread{[&] { rank.communicators->fail("a rank is gone"); }}.join();
    while (!aborted) std::this_thread::yield();
  });
  CHECK_THROWS_AS(rank.all_reduce(stream), CollectiveError);
  CHECK(fake::calls("ncclCommAbort").size() == 1);
}

TEST_CASE("NCCL is called with its GPU current on every thread, so no other gets a context") {
  {
    Rank rank;
    rank.all_reduce(rank.new_stream());
    while (fake::calls("ncclCommGetAsyncError").empty()) std::this_thread::yield();
  }
  {
    Rank rank;
    rank.all_reduce(rank.new_stream());
    std::thread{[&] { rank.communicators->fail("it is to end"); }}.join();
    CHECK(fake::contexts() == std::set{1});
  }
  CHECK(fake::contexts() == std::set{1});
}

TEST_CASE("NCCL 2.26 and later is configured to keep the order of launches") {
  CHECK(stand_in_nccl().ordered_launches);
  CHECK(std::string{std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT")} == "1");
}

TEST_CASE("a process prepared for NCCL loads kernels eagerly unless the environment differs") {
  unsetenv("CUDA_MODULE_LOADING");
  NcclGroup::prepare_process();
  CHECK(std::string{std::getenv("CUDA_MODULE_LOADING")} == "EAGER");
  setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  NcclGroup::prepare_process();
  CHECK(std::string{std::getenv("CUDA_MODULE_LOADING")} == "LAZY");
  unsetenv("CUDA_MODULE_LOADING");
}
