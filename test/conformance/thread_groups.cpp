#include "millrace/device/cuda_device.hpp"
#include "millrace/device/thread_executor.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "millrace/pipeline/collective/run_ranks.hpp"
#include "millrace/pipeline/collective/thread_group.hpp"
#include "test/conformance/group_conformance.hpp"
#include "test/support/schedules.hpp"
#include "test/support/seed.hpp"
#include "test/support/threaded_device.hpp"

namespace millrace::test {
namespace {

GroupFactory meeting_factory(const std::string& name, const VirtualMachine::Options& options) {
  return {name, {1, 2, 4}, [options](unsigned ranks, const RankBody& body) {
            VirtualMachine machine{options};
            std::vector<std::unique_ptr<OrderedDevice>> devices;
            for (unsigned rank = 0; rank < ranks; ++rank) {
              devices.push_back(std::make_unique<OrderedDevice>(
                  machine.add_device({.memory_bytes = std::size_t{256} << 20})));
            }
            ThreadRanks group{ranks, machine};
            run_ranks(machine.executor(), ranks, [&](unsigned number) {
              Rank rank{group.join(number, *devices[number]), *devices[number]};
              body(rank);
            });
          }};
}

GroupFactory staged_factory() {
  return {"threads, through pinned memory", {1, 2, 4}, [](unsigned ranks, const RankBody& body) {
            ThreadExecutor executor;
            ThreadRanks group{ranks, executor};
            run_ranks(executor, ranks, [&](unsigned number) {
              ThreadedDevice device{std::size_t{1} << 30};
              OrderedDevice ordered{device};
              Rank rank{group.join(number, ordered), ordered};
              body(rank);
            });
          }};
}

GroupFactory one_gpu_factory() {
  return {"threads on one GPU",
          {1, 2, 4},
          [](unsigned ranks, const RankBody& body) {
            ThreadExecutor executor;
            ThreadRanks group{ranks, executor};
            const auto gpu = CudaDevice::create(0);
            OrderedDevice ordered{*gpu};
            run_ranks(executor, ranks, [&](unsigned number) {
              Rank rank{group.join(number, ordered), ordered};
              body(rank);
            });
          },
          false};
}

std::vector<GroupFactory> make_group_factories() {
  std::vector<GroupFactory> all;
  all.push_back(meeting_factory("threads, virtual devices, timed", {}));
  for (std::uint64_t i = 0; i < 3; ++i) {
    const VirtualMachine::Options options = adversarial(seed() * 100 + i);
    all.push_back(meeting_factory(
        "threads, virtual devices, adversarial " + std::to_string(options.seed), options));
  }
  all.push_back(staged_factory());
  if (cuda_device_count().count > 0) all.push_back(one_gpu_factory());
  if (auto nccl = nccl_factory()) all.push_back(std::move(*nccl));
  return all;
}

}  // namespace

const std::vector<GroupFactory>& group_factories() {
  static const std::vector<GroupFactory> all = make_group_factories();
  return all;
}

}  // namespace millrace::test
