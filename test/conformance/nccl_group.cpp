#include "millrace/pipeline/collective/nccl_group.hpp"

#include <optional>
#include <string>

#include "millrace/device/cuda_device.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "test/conformance/group_conformance.hpp"

namespace millrace::test {
namespace {

/// Returns why the suite cannot run on NCCL here, or "" if it can.
std::string why_not() {
  if (const CudaDeviceCount gpus = cuda_device_count(); gpus.count == 0) return gpus.reason;
  return nccl_support().problem;
}

}  // namespace

std::optional<GroupFactory> nccl_factory() {
  if (!why_not().empty()) return {};
  return GroupFactory{"NCCL on one GPU", {1}, [](unsigned, const RankBody& body) {
                        const auto gpu = CudaDevice::create(0);
                        OrderedDevice device{*gpu};
                        const auto alone = Rendezvous::over_tcp("localhost", 0, 0, 1, {});
                        Rank rank{NcclGroup::make(device, *alone, {}), device};
                        body(rank);
                      }};
}

TEST_CASE("the suite of process groups runs on NCCL as well") {
  if (const std::string reason = why_not(); !reason.empty()) {
    SKIP("not run on NCCL: " + reason);
  }
  CHECK(group_factories().back().name == "NCCL on one GPU");
}

TEST_CASE("without NCCL or a GPU, asking for a group says what is missing") {
  VirtualMachine machine;
  OrderedDevice device{machine.add_device()};
  const auto alone = Rendezvous::over_tcp("localhost", 0, 0, 1, {});
  const NcclSupport support = nccl_support();
  CHECK(support.loaded == support.problem.empty());
  if (support.loaded) {
    CHECK_THROWS_AS(NcclGroup::make(device, *alone, {}), std::invalid_argument);
  } else {
    CHECK_THROWS_WITH(NcclGroup::make(device, *alone, {}),
                      Catch::Matchers::ContainsSubstring("MILLRACE_NCCL"));
  }
}

}  // namespace millrace::test
